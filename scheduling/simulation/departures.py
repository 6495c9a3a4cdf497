"""Simulates departures: at 90 % load some pods end, and jobs that need whole nodes are pending.

The capacity that becomes free is scattered. The number of pending jobs that could start is counted before and
after the moves of consolidation, cycle by cycle, with the limits of a live cell; a move is done before the
next cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from scheduling.engine import ConsolidationOptions, PlacementStream, PreparedRequest, TaskPlacement
from scheduling.engine.model import Allocation, DecisionKind, Flavor, GpuRequest, Node, Request
from scheduling.simulation.cell import QUEUE, ROLE, PackingCell
from scheduling.simulation.errors import UsageError
from scheduling.simulation.published import published_config

LOAD = 0.9
# The request of each pending job: eight whole cards and 64 cores.
WAITING = Request(cpu=64_000, memory=0, gpu=GpuRequest(cards=8))


class PlacedPod(NamedTuple):
    """A running pod: its request and its placement."""

    request: Request
    prepared: PreparedRequest
    placement: TaskPlacement


@dataclass(frozen=True, slots=True)
class Departures:
    """The share of the pods that end, in percent, and the number of tasks that may be moved afterwards."""

    percent: float
    moves: int = 0

    def check_options(self) -> None:
        """Raise UsageError if one of them is out of range."""
        if not 0 < self.percent < 100:
            raise UsageError(f"--departures is {self.percent:g}; it is above 0 and below 100")
        if self.moves < 0:
            raise UsageError(f"--moves is {self.moves}; it is at least 0")


@dataclass(frozen=True, slots=True)
class Departed:
    """Whole-node slots: how many pending jobs could start at 90 % load, after departures, and after moves.

    `cards_moved` is a number of cards, to which slices count in part.
    """

    left: int
    slots_loaded: int
    slots_without: int
    slots_with: int
    moves: int
    cards_moved: float

    @property
    def gained(self) -> int:
        """The number of slots that moves created."""
        return self.slots_with - self.slots_without


def depart_pods(
    stream: PlacementStream,
    cluster: tuple[Sequence[Node], Flavor],
    running: Mapping[str, PlacedPod],
    what: Departures,
    *,
    seed: int,
) -> Departed:
    """End a random share of the pods, drawn with the seed, and make moves that create slots for pending jobs.

    `cluster` has the nodes without pods and their flavor, `running` the pods by name, in order of arrival.
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
    """The cluster as a cell with pending jobs for whole nodes.

    `moved` has the moved tasks by job. `started` counts the pending jobs that started.
    """

    def __init__(
        self, cluster: tuple[Sequence[Node], Flavor], pods: Mapping[str, PlacedPod], *, waiting: int
    ) -> None:
        self._cell = PackingCell(*cluster, now=len(pods))
        self._cell.run_pods((name, pod.request, self._allocation_of(pod)) for name, pod in pods.items())
        self._cell.submit_pods((f"slot-{number:06}", WAITING) for number in range(waiting))
        self.started, self.moved = 0, dict[str, Allocation]()

    def run_cycle(self, moves: int) -> bool:
        """Run a cycle that may move this many tasks, carry out its decisions, and return whether it moved
        any."""
        bounds = ConsolidationOptions(with_evictions=False)
        config = replace(
            published_config(),
            actions=("allocate", "consolidate"),
            consolidation=replace(bounds, moves_per_cycle=min(moves, bounds.moves_per_cycle)),
            advise_for="",
        )
        decisions = self._cell.decide(config)
        self._cell.carry_out(decisions)
        moved = {each.job: each.allocations[0] for each in decisions if each.kind is DecisionKind.MIGRATE}
        self.moved |= moved
        self.started += len(decisions) - len(moved)
        return bool(moved)

    def _allocation_of(self, pod: PlacedPod) -> Allocation:
        placement, task = pod.placement, pod.prepared.task
        return Allocation(
            job="",
            queue=QUEUE,
            role=ROLE,
            index=0,
            flavor=self._cell.flavor.id,
            node=placement.node,
            cpu=task.cpu,
            memory=task.memory,
            slices=placement.slices,
        )
