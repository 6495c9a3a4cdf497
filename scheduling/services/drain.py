"""Evicts jobs that exceed a lowered quota, in the transaction that lowers it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from foundation.core import clock
from foundation.core.actor import Actor
from quotas.hooks.job_effects import OverQuota
from quotas.models import QuotaNode
from scheduling.engine.model import EvictRule
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import Job, JobState
from scheduling.services.quota_effect import jobs_to_drain
from scheduling.snapshots import cell_snapshot

_RUNS = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)


def quota_drain(acting_user: Actor, over_quota: Sequence[OverQuota]) -> int:
    """Evict jobs until the usage is within the new limits; return how many were marked for eviction.

    They are queued again. The caller holds the cell's lock, so that no cycle admits jobs meanwhile.
    """
    if not over_quota:
        return 0
    cell_id = QuotaNode.unscoped.values_list("cell_id", flat=True).get(pk=over_quota[0].key.node_id)
    ids = [uuid.UUID(job_id) for job_id in jobs_to_drain(cell_snapshot(cell_id).snapshot, over_quota)]
    jobs = Job.unscoped.select_for_update(of=("self",), no_key=True).filter(pk__in=ids, state__in=_RUNS)
    marked, now = 0, clock.now()
    for job in jobs.select_related("queue", "workspace").order_by("pk"):
        try:
            begin_eviction(
                job=job,
                rule=EvictRule.QUEUE_DRAINED.value,
                then=JobState.QUEUED,
                now=now,
                actor=acting_user.get_username(),
            )
        except StaleJob:
            continue  # it has ended or was evicted meanwhile, so its quota is released anyway
        marked += 1
    return marked
