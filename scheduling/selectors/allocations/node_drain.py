"""Previews of drains: the jobs that would be evicted, and the work that would be lost."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from clusters.models import ForeignPod, Node
from clusters.selectors.foreign import foreign_on_nodes
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.months import to_ms
from scheduling.metering.intervals import WHOLE_GPU, gpu_percent, lost_since_ms
from scheduling.models import RUNNING_STATES, Allocation, Attempt, Job
from tenants.access import permissions
from tenants.access.permissions import Permission

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedJob:
    """A job that a drain evicts, with its workspace and user selected.

    `tasks` counts those on the node. `lost_gpu_hours` is the work of all its tasks since the last checkpoint,
    or since the start if the job declares no checkpoints; None for a job that has not started.
    """

    job: Job
    tasks: int
    lost_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """The jobs that a drain of one node evicts, by workspace and name, and the foreign pods that stay."""

    jobs: Sequence[DrainedJob] = ()
    foreign: Sequence[ForeignPod] = ()

    @property
    def lost_gpu_hours(self) -> float:
        """The lost work of all jobs, in GPU-hours."""
        return sum(one.lost_gpu_hours or 0.0 for one in self.jobs)


def preview_drain(*, viewer: Actor, node: Node) -> DrainPreview:
    """Return the preview of one node. Raises: PermissionDenied."""
    return preview_drains(viewer=viewer, nodes=[node])[node.pk]


def preview_drains(*, viewer: Actor, nodes: Iterable[Node]) -> Mapping[uuid.UUID, DrainPreview]:
    """Return the preview of each node, by its id, without jobs that are terminating already.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    asked, now = list(nodes), clock.now()
    held = Allocation.unscoped.filter(
        node__in=asked, released_at__isnull=True, attempt__job__state__in=RUNNING_STATES
    )
    tasks: defaultdict[uuid.UUID, Counter[uuid.UUID]] = defaultdict(Counter)
    for node_id, job_id in held.values_list("node_id", "attempt__job_id"):
        tasks[node_id][job_id] += 1
    ids = set().union(*tasks.values())
    rows = Job.unscoped.filter(pk__in=ids).select_related("workspace", "submitted_by")
    jobs = {job.pk: job for job in rows.order_by("workspace__name", "name", "pk")}
    lost = _find_losses(jobs, now)
    foreign = foreign_on_nodes(viewer=viewer, nodes=asked)
    return {
        node.pk: DrainPreview(
            [
                DrainedJob(job=job, tasks=tasks[node.pk][pk], lost_gpu_hours=lost.get(pk))
                for pk, job in jobs.items()
                if pk in tasks[node.pk]
            ],
            [pod for pod in foreign.get(node.pk, ()) if not pod.standing],
        )
        for node in asked
    }


def _find_losses(jobs: Mapping[uuid.UUID, Job], now: datetime) -> dict[uuid.UUID, float]:
    """Return the GPU-hours of work that would be lost now, by job, without jobs that have not started."""
    began = Attempt.unscoped.filter(job__in=jobs, ended_at__isnull=True, started_at__isnull=False)
    started = dict(began.values_list("job_id", "started_at"))
    held = Allocation.unscoped.filter(
        attempt__job__in=started, attempt__ended_at__isnull=True, released_at__isnull=True
    )
    percent: Counter[uuid.UUID] = Counter()
    for job_id, charge in held.values_list("attempt__job_id", "charge"):
        percent[job_id] += gpu_percent(charge)
    found = {}
    for job_id, at in started.items():
        if at is None:
            continue
        since = lost_since_ms(
            started_ms=to_ms(at),
            ended_ms=to_ms(now),
            checkpoint_interval_s=jobs[job_id].checkpoint_interval_s,
        )
        found[job_id] = percent[job_id] / WHOLE_GPU * (to_ms(now) - since) / _HOUR_MS
    return found
