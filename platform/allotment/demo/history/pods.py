"""Continues the jobs that run at the end of the simulated week in the simulated cluster."""

from __future__ import annotations

from clusters.backends.registry import backend_for
from clusters.backends.simulated.pods import start_earlier
from clusters.models import Cluster
from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation


def start_pods() -> int:
    """Create the pods of all running attempts, with the attempts' start times; return their number.

    The platform creates the pods of attempts that have not started.
    """
    cluster = Cluster.unscoped.get(name="demo")
    held = list(
        Allocation.unscoped.filter(
            node__cluster=cluster, released_at=None, attempt__started_at__isnull=False
        ).select_related("task__role", "attempt__job", "node", "flavor")
    )
    specs = task_specs(held)
    for allocation, outcome in zip(held, backend_for(cluster).ensure_many(specs), strict=True):
        allocation.pod_uid, allocation.ensured_at = outcome.uid, allocation.attempt.admitted_at
    Allocation.unscoped.bulk_update(held, ["pod_uid", "ensured_at"])
    start_earlier(cluster.pk, {one.pod_uid: one.attempt.started_at for one in held if one.attempt.started_at})
    return len(held)
