"""What waiting jobs ask for, per queue: sums without names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import Count, F, Sum

from quotas.effect import Demand
from scheduling.models import Job, JobState

_WAITING: Final = (JobState.SUBMITTED, JobState.QUEUED)


def pending_demand(nodes: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, Demand]:
    """Waiting jobs and the cards they ask for, by the quota node of their queue; one query.

    The caller has decided who may know.
    """
    jobs = Job.unscoped.filter(queue__node__in=nodes, state__in=_WAITING).order_by()
    rows = jobs.values_list("queue__node").annotate(
        count=Count("pk", distinct=True), cards=Sum(F("roles__gpu_cards") * F("roles__replicas"))
    )
    return {node: Demand(node, count, cards or 0) for node, count, cards in rows}
