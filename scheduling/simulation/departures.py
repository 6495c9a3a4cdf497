"""Departures: at 90 % load some pods leave, and jobs that need whole nodes wait.

What the pods that stay leave free is scattered. How many of the waiting jobs could start is counted as it is,
and again after the moves that consolidation makes, cycle by cycle, with the bounds of a live cell; a move is
done before the next cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from foundation.core.garbage_collection import gc_paused
from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    ConsolidationOptions,
    Delta,
    JobPut,
    PlacementStream,
    PreparedRequest,
    Snapshot,
    TaskPlacement,
    charges_in_flavors,
    run_cycle,
)
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    Flavor,
    GpuRequest,
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
from scheduling.simulation.errors import UsageError
from scheduling.simulation.published import published_config

LOAD = 0.9
# What each waiting job asks for: eight whole cards and 64 cores.
WAITING = Request(cpu=64_000, memory=0, gpu=GpuRequest(cards=8))

QUEUE, FOLDER = "packing", "all"
# Longer than any run, in seconds.
RUNS_ON_S = 1 << 30
RESOURCES = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


class PlacedPod(NamedTuple):
    """A pod that runs: what it asked for, and where it is."""

    request: Request
    prepared: PreparedRequest
    placement: TaskPlacement


@dataclass(frozen=True, slots=True)
class Departures:
    """How many of the pods leave, in percent, and how many tasks may be moved afterwards."""

    percent: float
    moves: int = 0

    def check_options(self) -> None:
        """Raise UsageError unless both are sensible."""
        if not 0 < self.percent < 100:
            raise UsageError(f"--departures is {self.percent:g}; it is above 0 and below 100")
        if self.moves < 0:
            raise UsageError(f"--moves is {self.moves}; it is at least 0")


@dataclass(frozen=True, slots=True)
class Departed:
    """Whole-node slots: how many waiting jobs could start at 90 % load, after departures, and after moves.

    `cards_moved` is in cards, parts of cards counted as such.
    """

    left: int
    slots_loaded: int
    slots_without: int
    slots_with: int
    moves: int
    cards_moved: float

    @property
    def gained(self) -> int:
        """Slots that moves opened."""
        return self.slots_with - self.slots_without


def depart_pods(
    stream: PlacementStream,
    cluster: tuple[Sequence[Node], Flavor],
    running: Mapping[str, PlacedPod],
    what: Departures,
    *,
    seed: int,
) -> Departed:
    """Let pods leave, drawn with the seed, and make the moves that open slots for waiting jobs.

    `cluster` is the nodes without pods and their flavor, `running` the pods by name, in order of arrival.
    """
    loaded = stream.count_slots(WAITING)
    leaving = set(Random(seed).sample(range(len(running)), round(len(running) * what.percent / 100)))
    staying = {}
    for index, (name, pod) in enumerate(running.items()):
        if index in leaving:
            stream.release_task(pod.prepared, pod.placement)
        else:
            staying[name] = pod
    without = stream.count_slots(WAITING)
    started, moved = without, dict[str, Allocation]()
    if what.moves:
        cell = _Cell(cluster, staying, waiting=without + what.moves + 1)
        while len(cell.moved) < what.moves and cell.run_cycle(what.moves - len(cell.moved)):
            pass
        started, moved = cell.started, cell.moved
    cores = sum(part.cores for task in moved.values() for part in task.slices)
    return Departed(
        left=len(leaving),
        slots_loaded=loaded,
        slots_without=without,
        slots_with=started,
        moves=len(moved),
        cards_moved=cores / cluster[1].card_cores,
    )


class _Cell:
    """The cluster as a cell with one queue, in which jobs for whole nodes wait.

    `moved` has the moved tasks by job; no pod is moved twice. `started` counts the waiting jobs that got a
    node.
    """

    def __init__(
        self, cluster: tuple[Sequence[Node], Flavor], pods: Mapping[str, PlacedPod], *, waiting: int
    ) -> None:
        self._nodes, self._flavor = cluster
        quotas = tuple(Quota(flavor=self._flavor.id, resource=name, own_nominal=None) for name in RESOURCES)
        self._snapshot = Snapshot(
            nodes=self._nodes,
            flavors=[self._flavor],
            quota_nodes=[QuotaNode(id=FOLDER, quotas=quotas)],
            queues=[Queue(id=QUEUE, quota_node=FOLDER, flavors=(self._flavor.id,))],
        )
        self._now = Instant(len(pods))
        self._snapshot.apply_delta(Delta(tuple(self._run_pods(pods))))
        jobs = (self._build_job(f"slot-{number:06}", WAITING, number) for number in range(waiting))
        self._snapshot.apply_delta(Delta(tuple(map(JobPut, jobs))))
        self.started, self.moved = 0, dict[str, Allocation]()

    def run_cycle(self, moves: int) -> bool:
        """Run a cycle that may move this many tasks, carry its decisions out, and return whether it moved
        any."""
        bounds = ConsolidationOptions(with_evictions=False)
        config = replace(
            published_config(),
            actions=("allocate", "consolidate"),
            consolidation=replace(bounds, moves_per_cycle=min(moves, bounds.moves_per_cycle)),
            advise_for="",
        )
        before = len(self.moved)
        with gc_paused():
            result = run_cycle(self._snapshot, config, self._now)
        # What is moved away is gone before anything takes its place.
        moved = [each for each in result.decisions if each.kind is DecisionKind.MIGRATE]
        released = [AllocationRemoved(key) for each in moved for key in each.released]
        self._snapshot.apply_delta(Delta((*released, *self._carry_out(result.decisions))))
        self._now = Instant(self._now + 1)
        return len(self.moved) > before

    def _carry_out(self, decisions: Sequence[Decision]) -> Iterator[JobPut | AllocationPut]:
        for decision in decisions:
            if decision.kind is DecisionKind.MIGRATE:
                self.moved[decision.job] = decision.allocations[0]
                # Its guaranteed run time keeps it from being moved again.
                yield self._start(replace(self._snapshot.jobs[decision.job], min_run_s=RUNS_ON_S))
            else:
                self.started += 1
                yield self._start(self._snapshot.jobs[decision.job])
            yield from map(AllocationPut, decision.allocations)

    def _start(self, job: Job) -> JobPut:
        return JobPut(replace(job, state=JobState.LIVE, admitted_at=self._now, running_since=self._now))

    def _run_pods(self, pods: Mapping[str, PlacedPod]) -> Iterator[JobPut | AllocationPut]:
        for number, (name, (request, prepared, placement)) in enumerate(pods.items()):
            job = self._build_job(name, request, number)
            yield self._start(job)
            yield AllocationPut(
                Allocation(
                    job=name,
                    queue=QUEUE,
                    role="pod",
                    index=0,
                    flavor=self._flavor.id,
                    node=placement.node,
                    cpu=prepared.task.cpu,
                    memory=prepared.task.memory,
                    slices=placement.slices,
                    zones=placement.zones,
                    charges=charges_in_flavors(request, dict.fromkeys(RESOURCES, self._flavor)),
                )
            )

    def _build_job(self, name: str, request: Request, number: int) -> Job:
        role = Role(name="pod", replicas=1, request=request)
        return Job(id=name, queue=QUEUE, user=name, roles=(role,), submitted_at=Instant(number))
