"""Samples the usage of users, so that the order of a queue can depend on their past usage.

Between two samples the weight of past usage decays with the half-life, and current usage gets the remaining
weight. A late, repeated or missing sample changes little, because the weight follows from the elapsed time.
Source: Kueue's usage-based admission fair sharing, by user instead of by local queue.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import transaction

from scheduling.engine_input.config import user_shares
from scheduling.models import Allocation, UserUsage

Who = tuple[uuid.UUID, uuid.UUID]
"""(queue id, user id)."""

_BATCH: Final = 500
# Amounts far below one percent of a card are dropped.
_NOTHING: Final = 0.001


@transaction.atomic
def user_usage_sample(*, now: datetime) -> int:
    """Update the usage of each user in each queue to `now`; return the number of users that are counted."""
    held = _held()
    rows = UserUsage.unscoped.select_for_update(no_key=True).order_by("pk")
    known = {(row.queue_id, row.user_id): row for row in rows}
    forgotten = []
    for key, row in known.items():
        elapsed_s = max(0.0, (now - row.at).total_seconds())
        row.consumed, row.at = _blended(row.consumed, held.get(key, {}), elapsed_s), now
        if not row.consumed and key not in held:
            forgotten.append(row.pk)
    new = [
        # The beginning of this usage is unknown, so one interval is assumed.
        UserUsage(
            queue_id=queue,
            user_id=user,
            at=now,
            consumed=_blended({}, held[queue, user], user_shares().sampling_s),
        )
        for queue, user in sorted(held.keys() - known.keys())
    ]
    UserUsage.unscoped.bulk_update(known.values(), ["consumed", "at"], batch_size=_BATCH)
    UserUsage.unscoped.filter(pk__in=forgotten).delete()
    UserUsage.unscoped.bulk_create(new, ignore_conflicts=True, batch_size=_BATCH)
    return len(known) - len(forgotten) + len(new)


def _blended(past: Mapping[str, float], present: Mapping[str, int], elapsed_s: float) -> dict[str, float]:
    decay = 0.5 ** (elapsed_s / user_shares().half_life_s)
    names = sorted({*past, *present})
    amounts = {name: decay * past.get(name, 0.0) + (1.0 - decay) * present.get(name, 0) for name in names}
    return {name: amount for name, amount in amounts.items() if amount > _NOTHING}


def _held() -> dict[Who, Counter[str]]:
    """Return the current charges of each user's jobs, in queues with user shares."""
    rows = Allocation.unscoped.filter(released_at__isnull=True, attempt__job__queue__user_shares=True)
    held: defaultdict[Who, Counter[str]] = defaultdict(Counter)
    for queue, user, charge in rows.values_list(
        "attempt__job__queue_id", "attempt__job__submitted_by_id", "charge"
    ):
        held[queue, user].update(charge)
    return dict(held)
