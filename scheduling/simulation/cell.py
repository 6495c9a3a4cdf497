"""A cell for packing runs: one flavor, one queue without limits, and a job for each pod."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from foundation.core.garbage_collection import gc_paused
from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    Delta,
    EngineConfig,
    ExplainScope,
    JobPut,
    JobRemoved,
    Snapshot,
    charges_in_flavors,
    recount_workload,
    run_cycle,
)
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    Flavor,
    Instant,
    Job,
    JobState,
    Node,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
)
from scheduling.simulation.openb import TracePod, packing_flavor
from scheduling.simulation.published import published_config

QUEUE, FOLDER, ROLE = "packing", "all", "pod"
# Longer than any run, in seconds.
RUNS_ON_S = 1 << 30
RESOURCES = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


class PackingCell:
    """A cell with pending and running pods on nodes of one flavor. Time begins at `now`; a cycle takes a
    second."""

    def __init__(self, nodes: Sequence[Node], flavor: Flavor, now: int = 0) -> None:
        self.flavor = flavor
        quotas = tuple(Quota(flavor=flavor.id, resource=name, own_nominal=None) for name in RESOURCES)
        self._snapshot = Snapshot(
            nodes=nodes,
            flavors=[flavor],
            quota_nodes=[QuotaNode(id=FOLDER, quotas=quotas)],
            queues=[Queue(id=QUEUE, quota_node=FOLDER, flavors=(flavor.id,))],
        )
        self._now = Instant(now)

    def submit_pods(self, requests: Iterable[tuple[str, Request]], first: int = 0) -> None:
        """Submit pods, by name, in this order; the first one at the instant `first`."""
        self._apply(
            JobPut(_build_job(name, request, number))
            for number, (name, request) in enumerate(requests, start=first)
        )

    def withdraw_pods(self, names: Iterable[str]) -> None:
        """Remove pending pods."""
        self._apply(map(JobRemoved, names))

    def run_pods(self, pods: Iterable[tuple[str, Request, Allocation]]) -> None:
        """Add running pods; job and charges of the allocations are filled in."""
        changes: list[Change] = []
        for number, (name, request, place) in enumerate(pods):
            charges = charges_in_flavors(request, dict.fromkeys(RESOURCES, self.flavor))
            changes.append(self._start(_build_job(name, request, number)))
            changes.append(AllocationPut(replace(place, job=name, charges=charges)))
        self._apply(changes)

    def decide(self, config: EngineConfig) -> tuple[Decision, ...]:
        """Return the decisions of a cycle."""
        with gc_paused():
            recount_workload(self._snapshot, config)
            return run_cycle(self._snapshot, config, self._now).decisions

    def carry_out(self, decisions: Sequence[Decision]) -> None:
        """Carry out the decisions of a cycle. No task is moved twice."""
        moved = [each for each in decisions if each.kind is DecisionKind.MIGRATE]
        # Moved tasks are released before other decisions use their capacity.
        released = [AllocationRemoved(key) for each in moved for key in each.released]
        self._apply((*released, *self._changes_of(decisions)))
        self._now = Instant(self._now + 1)

    def _changes_of(self, decisions: Sequence[Decision]) -> Iterator[Change]:
        for decision in decisions:
            job = self._snapshot.jobs[decision.job]
            # A guaranteed run time keeps a moved task from being moved again.
            moved = decision.kind is DecisionKind.MIGRATE
            yield self._start(replace(job, min_run_s=RUNS_ON_S) if moved else job)
            yield from map(AllocationPut, decision.allocations)

    def _start(self, job: Job) -> JobPut:
        return JobPut(replace(job, state=JobState.LIVE, admitted_at=self._now, running_since=self._now))

    def _apply(self, changes: Iterable[Change]) -> None:
        self._snapshot.apply_delta(Delta(tuple(changes)))


def _build_job(name: str, request: Request, number: int) -> Job:
    role = Role(name=ROLE, replicas=1, request=request)
    return Job(id=name, queue=QUEUE, user=QUEUE, roles=(role,), submitted_at=Instant(number))


@dataclass(frozen=True, slots=True)
class CyclePacking:
    """The placements of pods that arrived in groups, one group for each cycle: node and columns of cards by
    arrival, None for a pod that did not fit and was removed. `seconds` is the time of the cycles."""

    places: tuple[tuple[str, tuple[int, ...]] | None, ...]
    seconds: float

    @property
    def pods_per_second(self) -> float:
        """The number of decided pods per second of the cycles."""
        return len(self.places) / self.seconds if self.seconds > 0 else 0.0


def pack_in_cycles(
    nodes: Sequence[Node],
    pods: Sequence[TracePod],
    order: Sequence[int],
    *,
    policy: str,
    group: int,
    clock: Callable[[], float] = time.process_time,
) -> CyclePacking:
    """Submit the pods of a packing run in groups, with one cycle for each group.

    `order` is as for `run_pack`. Ties between nodes are broken by their order, as there. A policy that learns
    uses the pending and running pods, and learns again when their mix has changed.
    """
    config = published_config()
    config = replace(
        config,
        actions=("allocate",),
        heads_per_queue=None,
        explain=ExplainScope.CONSIDERED,
        no_room=replace(config.no_room, prefer_own_nodes=False),
    )
    cell = PackingCell(nodes, packing_flavor(policy))
    columns = {device.uuid: at for node in nodes for at, device in enumerate(node.devices)}
    names = [f"{step:08}" for step in range(len(order))]
    places: dict[str, tuple[str, tuple[int, ...]]] = {}
    seconds = 0.0
    for first in range(0, len(order), group):
        asked = ((names[at], pods[order[at] % len(pods)].request) for at in range(len(order))[first:][:group])
        cell.submit_pods(asked, first)
        begun = clock()
        decisions = cell.decide(config)
        seconds += clock() - begun
        cell.carry_out(decisions)
        for task in (decision.allocations[0] for decision in decisions):
            places[task.job] = task.node, tuple(columns[part.device] for part in task.slices)
        cell.withdraw_pods(name for name in names[first:][:group] if name not in places)
    return CyclePacking(tuple(map(places.get, names)), seconds)
