"""The order in which a cycle that begins now evaluates the pending jobs of queues, as an order of rows.

The engine's order is `QueueCursor` with `Session.pending_jobs`: first the load of the job's user if the queue
has fair sharing between users, then, in a best-effort queue, jobs with a claim, then the criteria of the
ordering `fifo`. A load changes with time and with each job that starts, so a position is valid only when it
is read.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, RowNumber

from foundation.core import clock
from quotas.models import Strategy
from scheduling.engine_input.config import user_shares
from scheduling.models import HOLDING_STATES, Allocation, Job, JobState, UserUsage

_QueueUser = tuple[uuid.UUID, uuid.UUID]
"""(queue id, user id)."""
_NO_LOAD: Final = Value(0, output_field=IntegerField())
_KEYS: Final = ("load_rank", "claim_rank", "-priority", "place_at", "pk")


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """The pending jobs of some queues; `ranks` are the users with a load, the smallest first, from 1."""

    queues: Collection[uuid.UUID]
    ranks: Mapping[_QueueUser, int]

    @property
    def jobs(self) -> QuerySet[Job]:
        """The pending jobs by queue, those of one queue in its order."""
        return self._keyed.order_by("queue_id", *_KEYS)

    @property
    def _keyed(self) -> QuerySet[Job]:
        queued = Job.unscoped.filter(queue__in=self.queues, state=JobState.QUEUED)
        same: defaultdict[tuple[uuid.UUID, int], list[uuid.UUID]] = defaultdict(list)
        for (queue, user), rank in self.ranks.items():
            same[queue, rank].append(user)
        loads = [
            When(queue_id=queue, submitted_by__in=users, then=Value(rank))
            for (queue, rank), users in same.items()
        ]
        # A claim moves its job forward in a best-effort queue only.
        claims = When(claim__isnull=False, queue__strategy=Strategy.BEST_EFFORT, then=Value(0))
        return queued.annotate(
            load_rank=Case(*loads, default=Value(0), output_field=IntegerField()) if loads else _NO_LOAD,
            claim_rank=Case(claims, default=Value(1), output_field=IntegerField()),
            place_at=Coalesce("order_at", "submitted_at"),
        )

    def count_before(self, job: Job) -> tuple[int, QuerySet[Job]] | None:
        """Return how many jobs are pending in the job's queue, and those before it; None if it isn't."""
        keyed = self._keyed.filter(queue_id=job.queue_id).order_by()
        own = keyed.filter(pk=job.pk).values(*(key.lstrip("-") for key in _KEYS)).first()
        return None if own is None else (keyed.count(), keyed.filter(_filter_before(own)))

    def count_before_new(self, queue_id: uuid.UUID, *, user_id: uuid.UUID, priority: int) -> tuple[int, int]:
        """Return how many jobs are pending in a queue, and how many of them come before a job that the user
        would submit now."""
        keyed = self._keyed.filter(queue_id=queue_id).order_by()
        rank = self.ranks.get((queue_id, user_id), 0)
        own = {"load_rank": rank, "claim_rank": 1, "priority": priority, "place_at": clock.now()}
        before = _filter_before(own)
        found = keyed.aggregate(waiting=Count("pk"), before=Count("pk", filter=before))
        return found["waiting"], found["before"]

    def find_places(self, wanted: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
        """Return the positions of some jobs in their queues, from 1; absent for those that aren't pending."""
        order = [F(key[1:]).desc() if key[0] == "-" else F(key).asc() for key in _KEYS]
        place = Window(RowNumber(), partition_by=[F("queue_id")], order_by=order)
        # A filter on rows would apply before the places are counted.
        shown = Case(When(pk__in=wanted, then=F("place")), output_field=IntegerField())
        placed = self._keyed.order_by().annotate(place=place).annotate(shown=shown)
        return dict(placed.filter(shown__isnull=False).values_list("pk", "shown"))


def read_queue_order(queues: Collection[uuid.UUID]) -> QueueOrder:
    """Return the current order of the pending jobs of queues; the caller has checked permissions.

    It takes two queries; the second one only if users of these queues have recent usage.
    """
    loads = _user_loads(queues, clock.now())
    ranks = {load: rank for rank, load in enumerate(sorted({load for load in loads.values() if load}), 1)}
    return QueueOrder(queues, {who: ranks[load] for who, load in loads.items() if load})


def _user_loads(queues: Collection[uuid.UUID], now: datetime) -> dict[_QueueUser, float]:
    """Return the loads of users, computed as in the engine's `UserUsageTable`."""
    shares = user_shares()
    stored = UserUsage.unscoped.filter(queue__in=queues, queue__user_shares=True).order_by()
    rows = {(row.queue_id, row.user_id): row for row in stored}
    if not rows:
        return {}
    accrued = {who: shares.compute_accrued_part((now - row.at).total_seconds()) for who, row in rows.items()}
    amounts: dict[_QueueUser, defaultdict[str, float]] = {}
    for who, row in rows.items():
        amounts[who] = defaultdict(float)
        for name, amount in sorted(row.consumed.items()):
            amounts[who][name] += (1.0 - accrued[who]) * amount
    admission = shares.compute_accrued_part(shares.sampling_s)
    for queue, user, admitted_at, charge, tasks in _held_by_users(rows):
        who = queue, user
        if who in rows:
            is_new = admitted_at is not None and admitted_at >= rows[who].at
            part = accrued[who] + (admission if is_new else 0.0)
            for name, amount in charge.items():
                amounts[who][name] += part * amount * tasks
    return {who: shares.compute_load(used) for who, used in amounts.items()}


def _held_by_users(users: Collection[_QueueUser]) -> QuerySet[Allocation, tuple[Any, ...]]:
    """Return the charges of users' jobs: queue, user, admission, charge of a task, and the number of such
    tasks."""
    held = Allocation.unscoped.filter(
        released_at__isnull=True,
        attempt__job__queue__in={queue for queue, _user in users},
        attempt__job__state__in=HOLDING_STATES,
    )
    jobs = ("queue_id", "submitted_by_id", "admitted_at")
    groups = held.order_by().values_list(*(f"attempt__job__{name}" for name in jobs), "charge")
    return groups.annotate(tasks=Count("pk"))


def _filter_before(own: Mapping[str, Any]) -> Q:
    """Return the condition for jobs that come before one with these keys; a job without an id is new, and
    comes after those with the same keys."""
    before, same = Q(), Q()
    for key in _KEYS[: len(own)]:
        name = key.lstrip("-")
        lookup = f"{name}__gt" if key[0] == "-" else f"{name}__lt"
        before |= same & Q(**{lookup: own[name]})
        same &= Q(**{name: own[name]})
    return before
