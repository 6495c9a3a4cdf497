"""Computes the effect of a change on jobs: the difference of one engine cycle without and one with the
change.

Nothing is written. The number of evaluated pending jobs is limited, so that a preview takes about the time of
two cycles for queues of any length. If the cycles exceed the deadline of `preview_config`, the preview is
marked as timed out.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from foundation.core import clock
from foundation.sql import row_scope
from quotas.hooks.job_effects import AffectedJob, JobsPreview, OverQuota
from quotas.models import QuotaKey, QuotaNode
from quotas.tree import NodeLimits
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.config import preview_config
from scheduling.models import Job
from scheduling.services.previewing import preview
from scheduling.snapshots import CellSnapshot, read_cell

WAITING_MAX: Final = 1000
"""The maximum number of pending jobs that are evaluated: those of the highest priority, the oldest first."""


def preview_quota_change(
    cell_id: uuid.UUID, rows: Mapping[QuotaKey, NodeLimits], over_quota: Sequence[OverQuota]
) -> JobsPreview:
    """Compute the difference that new limits make to the next cycle; jobs over them are evicted first."""
    return compare_cycles(cell_id, partial(build_quota_puts, rows=rows), over_quota=over_quota)


def _build_timed_out(*_args: Any, **_kwargs: Any) -> JobsPreview:
    return JobsPreview(timed_out=True)


@preview(when_late=_build_timed_out)
@row_scope.whole()
def compare_cycles(
    cell_id: uuid.UUID,
    change: Callable[[engine.Snapshot], Iterable[engine.Change]],
    *,
    over_quota: Sequence[OverQuota] = (),
    sharing: str | None = None,
) -> JobsPreview:
    """Compute the difference that changes of the snapshot, or another sharing, make to the next cycle.

    `change` is pickled. The jobs that exceed the limits of `over_quota` are evicted first.
    """
    try:
        return _compare_cycles(cell_id, change, over_quota, sharing)
    except engine.DeadlineExceededError:
        return JobsPreview(timed_out=True)


def _compare_cycles(
    cell_id: uuid.UUID,
    change: Callable[[engine.Snapshot], Iterable[engine.Change]],
    over_quota: Sequence[OverQuota],
    sharing: str | None,
) -> JobsPreview:
    # Both cycles start from one reading, so that concurrent changes do not count as an effect.
    reading = read_cell(cell_id)
    taken, changed = reading.build_snapshot(), reading.build_snapshot()
    config = preview_config(reading.sharing)
    now = em.Instant(clock.now().timestamp())
    left_out = _shorten(taken.snapshot)
    _shorten(changed.snapshot)
    as_is = engine.run_cycle(taken.snapshot, config, now)
    changed.snapshot.apply_delta(engine.Delta(tuple(change(changed.snapshot))))
    drained = jobs_to_drain(changed.snapshot, over_quota)
    config_then = preview_config(sharing) if sharing is not None else config
    then = engine.run_cycle(changed.snapshot, config_then, now)
    lost, lost_as_is = _evicted(then) | set(drained), _evicted(as_is)
    begun, begun_as_is = _starting(then), _starting(as_is)
    return JobsPreview(
        reclaimed=_jobs(changed, lost - lost_as_is),
        scaled_down=_jobs(changed, _scaled_down(then) - _scaled_down(as_is) - lost),
        started=_jobs(changed, begun - begun_as_is),
        spared=_jobs(changed, lost_as_is - lost),
        delayed=_jobs(changed, begun_as_is - begun),
        left_out=left_out,
    )


def jobs_to_drain(snapshot: engine.Snapshot, over_quota: Iterable[OverQuota]) -> list[str]:
    """Return the jobs to evict so that usage fits the new limits, in the order of `over_quota`."""
    below = queues_below(over.key.node_id for over in over_quota)
    found: dict[str, None] = {}
    for over in over_quota:
        queues = {str(pk) for pk in below[over.key.node_id]}
        found |= dict.fromkeys(engine.find_over_quota_jobs(snapshot, queues, over.key.tree_key, over.limit))
    return list(found)


def queues_below(nodes: Iterable[uuid.UUID]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Return the ids of the queues at or below each quota node."""
    wanted = list(nodes)
    cells = QuotaNode.unscoped.filter(pk__in=wanted).values("cell_id")
    parents: dict[uuid.UUID, uuid.UUID | None] = {}
    queues: dict[uuid.UUID, uuid.UUID] = {}
    for pk, parent, queue in QuotaNode.unscoped.filter(cell_id__in=cells).values_list(
        "pk", "parent_id", "queue__pk"
    ):
        parents[pk] = parent
        if queue is not None:
            queues[pk] = queue
    found: dict[uuid.UUID, set[uuid.UUID]] = {node: set() for node in wanted}
    for leaf, queue in queues.items():
        at: uuid.UUID | None = leaf
        while at is not None:
            if at in found:
                found[at].add(queue)
            at = parents[at]
    return found


def _shorten(snapshot: engine.Snapshot) -> int:
    """Remove the pending jobs beyond `WAITING_MAX`; return how many."""
    waiting = [job for job in snapshot.jobs.values() if job.state is em.JobState.QUEUED]
    waiting.sort(key=lambda job: (-job.priority, job.submitted_at, job.id))
    beyond = waiting[WAITING_MAX:]
    snapshot.apply_delta(engine.Delta(tuple(engine.JobRemoved(job.id) for job in beyond)))
    return len(beyond)


def build_quota_puts(
    snapshot: engine.Snapshot, rows: Mapping[QuotaKey, NodeLimits]
) -> Iterable[engine.QuotaPut]:
    """Yield the changes of the snapshot that give its quota nodes these limits."""
    by_node: defaultdict[str, dict[em.FlavorResource, em.Quota]] = defaultdict(dict)
    for key, limits in rows.items():
        by_node[str(key.node_id)][key.tree_key] = em.Quota(
            flavor=str(key.flavor_id),
            resource=key.resource,
            own_nominal=limits.own_nominal,
            borrowing_limit=limits.borrowing_limit,
            lending_limit=limits.lending_limit,
        )
    for node in snapshot.export_quota_nodes():
        if node.id in by_node:
            quotas = {quota.key: quota for quota in node.quotas} | by_node[node.id]
            yield engine.QuotaPut(replace(node, quotas=tuple(quotas.values())))


def _evicted(result: em.CycleResult) -> set[str]:
    return {d.job for d in result.decisions if d.kind is em.DecisionKind.EVICT}


def _scaled_down(result: em.CycleResult) -> set[str]:
    return {d.job for d in result.decisions if d.kind is em.DecisionKind.SHRINK}


def _starting(result: em.CycleResult) -> set[str]:
    """Return the jobs that start at once, and those that get a claim and start when other tasks have
    ended."""
    kinds = em.DecisionKind.ADMIT, em.DecisionKind.PARK
    return {d.job for d in result.decisions if d.kind in kinds and d.allocations}


def _jobs(taken: CellSnapshot, ids: Collection[str]) -> list[AffectedJob]:
    jobs = sorted((taken.jobs[job_id] for job_id in ids if job_id in taken.jobs), key=_place_in_list)
    return [
        AffectedJob(job.pk, job.name, job.workspace_id, job.queue.name, _cards(taken, job)) for job in jobs
    ]


def _place_in_list(job: Job) -> tuple[str, str]:
    return job.name, str(job.pk)


def _cards(taken: CellSnapshot, job: Job) -> int:
    asked = taken.snapshot.jobs.get(str(job.pk))
    roles = () if asked is None else asked.roles
    return sum(role.replicas * role.request.gpu.cards for role in roles if role.request.gpu)
