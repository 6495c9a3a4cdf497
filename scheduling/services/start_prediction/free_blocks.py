"""Finds blocks of free GPUs on one node: the current ones, and when running jobs are expected to free a
larger one. Nothing is written.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from statistics import median
from typing import Final, NamedTuple

from clusters.models import Device, Flavor, Node
from foundation.sql import row_scope
from quotas.selectors.pools.pool import WorkspacePool
from scheduling.models import DeviceSlice, Job
from scheduling.prediction.run_times import RunTimeEstimate
from scheduling.selectors.jobs.job_sight import JobsBySight, split_by_sight
from scheduling.services.start_prediction.history import traits_of
from scheduling.services.start_prediction.queue_times import learned_run_times
from tenants.models import User

MOST_NODES: Final = 30
"""The number of nodes that are examined for a block: those with the most free GPUs."""
_FUTURES: Final = 99
_LATE: Final = 0.9


@dataclass(frozen=True, slots=True)
class FreeOnNode:
    """A node with free GPUs."""

    node: str
    gpus: int


class _NodeKey(NamedTuple):
    """A node; nodes of different clusters can have the same name."""

    name: str
    node_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class EndingBlock:
    """A node where enough GPUs are expected to be free once jobs have ended.

    The probability is 50 % at `expected_at` and 90 % at `late_at`. `jobs` are those that end first, as far as
    the viewer may see them.
    """

    node: str
    expected_at: datetime
    late_at: datetime
    jobs: JobsBySight


def list_free_nodes(pools: Sequence[WorkspacePool]) -> list[FreeOnNode]:
    """Return the nodes of pools with free GPUs, most first. The caller has checked that the viewer may see
    them."""
    free = {pk: count for pool in pools for pk, count in pool.free_by_node.items()}
    names = Node.unscoped.filter(pk__in=free).values_list("pk", "name")
    return sorted((FreeOnNode(name, free[pk]) for pk, name in names), key=lambda one: (-one.gpus, one.node))


def find_ending_block(
    *, viewer: User, pools: Sequence[WorkspacePool], gpus: int, now: datetime
) -> EndingBlock | None:
    """Return the node of these pools, among `MOST_NODES`, that is expected to have so many free GPUs first.

    None if no node can have so many by the end of jobs, or if too few earlier runs are known for a job there.
    The caller has checked that the viewer may see the pools.
    """
    node, ends, jobs = _read_earliest([pool.flavor for pool in pools], gpus, now)
    if not node:
        return None
    late = sorted(ends)[int(_LATE * (len(ends) - 1))]
    return EndingBlock(
        node=node,
        expected_at=now + timedelta(seconds=median(ends)),
        late_at=now + timedelta(seconds=late),
        jobs=split_by_sight(viewer, jobs),
    )


@row_scope.whole()
def _read_earliest(
    flavors: Sequence[Flavor], gpus: int, now: datetime
) -> tuple[str, Sequence[float], Sequence[Job]]:
    """Return a node, the seconds until its block in each future, and the jobs of the block."""
    devices = _read_devices(flavors, gpus)
    ids = {pk for on_node in devices.values() for pk in on_node}
    holders: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    slices = DeviceSlice.unscoped.filter(device__in=ids, released=False)
    for device, job in slices.values_list("device_id", "allocation__attempt__job_id"):
        holders[device].add(job)
    wanted = {job for held in holders.values() for job in held}
    rows = Job.unscoped.filter(pk__in=wanted).select_related("workspace").prefetch_related("roles")
    jobs = {job.pk: job for job in rows}
    remaining = {pk: drawn for pk, job in jobs.items() if (drawn := _draw_remaining(job, now))}
    best: tuple[str, Sequence[float], Sequence[uuid.UUID]] = ("", (), ())
    for node, on_node in devices.items():
        known = [pk for pk in on_node if holders[pk] <= remaining.keys()]
        if len(known) < gpus:
            continue
        ends = [
            sorted(max((remaining[job][future] for job in holders[pk]), default=0.0) for pk in known)[
                gpus - 1
            ]
            for future in range(_FUTURES)
        ]
        if not best[0] or median(ends) < median(best[1]):
            soonest = sorted(
                known, key=lambda pk: max((median(remaining[job]) for job in holders[pk]), default=0.0)
            )
            ending = dict.fromkeys(job for pk in soonest[:gpus] for job in sorted(holders[pk]))
            best = node.name, ends, tuple(ending)
    return best[0], best[1], [jobs[pk] for pk in best[2]]


def _read_devices(flavors: Collection[Flavor], gpus: int) -> Mapping[_NodeKey, Sequence[uuid.UUID]]:
    """Return the usable GPUs of the nodes with the most free ones, in the order of the nodes' names."""
    usable = Device.unscoped.filter(
        node__flavor__in=flavors,
        node__present=True,
        node__ready=True,
        node__cordoned=False,
        healthy=True,
        foreign_holders=0,
    )
    found: defaultdict[_NodeKey, list[uuid.UUID]] = defaultdict(list)
    free: defaultdict[_NodeKey, int] = defaultdict(int)
    rows = usable.order_by("node__name", "node", "index").values_list("pk", "node__name", "node", "holders")
    for pk, name, node_id, holders in rows:
        node = _NodeKey(name, node_id)
        found[node].append(pk)
        free[node] += not holders
    large = sorted((node for node in found if len(found[node]) >= gpus), key=lambda node: (-free[node], node))
    return {node: found[node] for node in sorted(large[:MOST_NODES])}


def _draw_remaining(job: Job, now: datetime) -> Sequence[float]:
    """Return the seconds that a job still runs in each future; empty without enough earlier runs."""
    learned = learned_run_times(job.queue_id, now)
    if learned is None:
        return ()
    elapsed = max(0.0, (now - (job.started_at or now)).total_seconds())
    estimate = learned.estimate_run_time(
        traits_of(job, list(job.roles.all())), elapsed_s=elapsed, limit_s=job.max_run_s
    )
    return [seconds - elapsed for seconds in _draw(estimate, Random(str(job.pk)))]


def _draw(estimate: RunTimeEstimate, random: Random) -> Iterator[float]:
    for _future in range(_FUTURES):
        yield estimate.draw_run_time(random.random(), random.random())
