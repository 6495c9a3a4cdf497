"""Explains why a job that did not borrow at its admission is evicted for borrowed quota."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from foundation.core.quantities import Resource
from scheduling.commit.batch import CommitBatch
from scheduling.engine import model as em
from scheduling.models import Attempt, Job

RECLAIMING: Final = frozenset(
    {em.EvictRule.RECLAIM_NOMINAL, em.EvictRule.RECLAIM_WHILE_BORROWING, em.EvictRule.FAIR_SHARE}
)
_GPUS: Final = (Resource.GPU_CARDS, Resource.GPU_CORES)


def find_queue_excess(batch: CommitBatch, job: Job, released: Collection[em.Allocation]) -> dict[str, Any]:
    """Return `borrowed_none` for a job that borrowed nothing at its admission; nothing for one that did.

    The numbers also name the job's first flavor in which its queue uses more than its nominal quota, and both
    amounts. `lowered` is set if no job of the queue borrowed there at its admission: the quota was lowered.
    """
    attempts = Attempt.unscoped.filter(job__queue=job.queue_id, ended_at__isnull=True)
    borrowed = dict(attempts.values_list("job_id", "borrowed"))
    if borrowed.get(job.pk):
        return {}
    leaf, tree = str(job.queue.node_id), batch.tree
    for flavor in sorted({task.flavor for task in released}):
        for key in (em.FlavorResource(flavor, resource) for resource in _GPUS):
            used, nominal = tree.usage(leaf, key), tree.subtree_quota(leaf, key)
            if nominal is None or used <= nominal:
                continue
            lent = any(f"{flavor}/{key.resource}" in amounts for amounts in borrowed.values())
            return {
                "borrowed_none": 1,
                "queue": job.queue.name,
                "flavor": batch.taken.names.get(flavor, ""),
                "resource": str(key.resource),
                "used": used,
                "nominal": nominal,
                **({} if lent else {"lowered": 1}),
            }
    return {"borrowed_none": 1}
