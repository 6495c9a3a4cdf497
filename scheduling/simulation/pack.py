"""Runs a packing simulation: pods arrive in a given order, are placed or dropped, and none ends.

The engine chooses every placement; this module counts arrivals and computes curves.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any

from foundation.core.garbage_collection import gc_paused
from scheduling.engine import (
    PlacementStream,
    PreparedRequest,
    RowAndCards,
    TaskPlacement,
    TaskWorkload,
    WorkloadLearner,
)
from scheduling.engine.model import Node
from scheduling.simulation.departures import LOAD, Departed, Departures, PlacedPod, depart_pods
from scheduling.simulation.errors import UsageError
from scheduling.simulation.openb import CARD, TracePod, packing_flavor
from scheduling.simulation.published import published_config
from scheduling.simulation.published.gauge import FragmentationGauge

# All policies but `random` reproduce their published curve; its published random numbers are lost.
RANDOM = "random"
# The platform's own policy learns from the pods so far; the published ones know the whole list.
DEFAULT = "default"
OFFERED = (RANDOM, "dotprod", "clustering", "packing", "bestfit", "fgd", DEFAULT)
LAST = 130
FRAGMENTATION_AT = (50, 80, 90)
LATE = 95

Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """A progress display that shows nothing."""


@dataclass(frozen=True, slots=True)
class PackedPod:
    """The node of one arrival; an empty node means that the pod was dropped."""

    step: int
    pod: str
    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """The result of a run; percentages are of all cards.

    `curve[k]` is the mean allocation while k % of the capacity had arrived, None if no pod arrived at that
    point. `departed` is None without departures; with them the placements are those before the departures.
    """

    policy: str
    seed: int
    arrived_pods: int
    placed_pods: int
    refused_multi_gpu_by_95: int
    curve: tuple[float | None, ...]
    fragmentation: dict[int, float | None]
    pods_per_second: float
    departed: Departed | None = None
    placements: str | None = None
    packed: tuple[PackedPod, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fixed keys of the command's JSON."""
        return {
            "policy": self.policy,
            "seed": self.seed,
            "arrived_pods": self.arrived_pods,
            "placed_pods": self.placed_pods,
            "refused_multi_gpu_by_95": self.refused_multi_gpu_by_95,
            "whole_nodes_opened": None if self.departed is None else self.departed.slots_with,
            "moves": 0 if self.departed is None else self.departed.moves,
            "allocation_percent": {"100": self.curve[100], "130": self.curve[LAST]},
            "curve": list(self.curve),
            "fragmentation_percent": {str(at): self.fragmentation[at] for at in FRAGMENTATION_AT},
            "pods_per_second": round(self.pods_per_second, 1),
            "placements": self.placements,
        }


def check_policy(policy: str) -> None:
    """Raise UsageError for an unknown policy."""
    if policy not in OFFERED:
        raise UsageError(f"policy {policy!r} not found; choose from {', '.join(OFFERED)}")


def run_pack(
    nodes: Sequence[Node],
    pods: Sequence[TracePod],
    order: Sequence[int],
    *,
    policy: str,
    seed: int,
    departures: Departures | None = None,
    clock: Callable[[], float] = time.process_time,
    progress: Progress = no_progress,
) -> PackReport:
    """Place the pods in order; `order` indexes `pods`, modulo its length if lists are repeated.

    With departures the run ends when 90 % of the cards are allocated and the pods have ended. The rate of the
    report is measured with `clock`, in seconds, without the time to learn, measure and display.

    Raises:
        UsageError: for a policy that is not offered, or when there is nothing to pack.
    """
    check_policy(policy)
    if departures is not None:
        departures.check_options()
    capacity = _capacity(nodes)
    if not capacity or not order:
        raise UsageError("no GPUs or no arrivals to pack")
    run = _Run(nodes, pods, order, policy, seed, _Stopwatch(clock))
    with gc_paused(), run.watch:
        loaded = run.arrive(math.inf if departures is None else LOAD * capacity, progress)
    if departures is not None and loaded:
        run.depart(departures, seed)
    progress(len(order), len(order))
    return run.report(policy, seed)


class _Stopwatch:
    """Measures the seconds within its context, without pauses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = 0.0
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._begun = self._clock()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._clock() - self._begun

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause within the context."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


class _Run:
    """One run: the requests, and the placement of each arrival. `watch` runs while pods are placed."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[TracePod],
        order: Sequence[int],
        policy: str,
        seed: int,
        watch: _Stopwatch,
    ) -> None:
        whole = TaskWorkload.count_tasks(pod.shape for pod in pods)
        # Random choice needs feasibility only, so any policy of the engine can be used.
        by = "bestfit" if policy == RANDOM else policy
        self._cluster = nodes, packing_flavor(by)
        self._stream = PlacementStream(
            *self._cluster, published_config(), None if policy == DEFAULT else whole
        )
        self._learner = WorkloadLearner(self._stream) if policy == DEFAULT else None
        asked = self._stream.prepare_requests(pod.request for pod in pods)
        self._pods = [pods[index % len(pods)] for index in order]
        self._asked = [asked[index % len(pods)] for index in order]
        self._milli = [pod.milli for pod in self._pods]
        self._capacity = _capacity(nodes)
        self._at = [round(100 * came / self._capacity) for came in accumulate(self._milli)]
        self._lots = Random(seed) if policy == RANDOM else None
        self._gauge = FragmentationGauge(self._stream.fleet, whole.list_typical())
        self._ratio: defaultdict[int, list[float]] = defaultdict(list)
        self._log: list[RowAndCards | TaskPlacement | None] = []
        self._departed: Departed | None = None
        self.watch = watch

    def arrive(self, until: float, progress: Progress) -> bool:
        """Place pods until `until` thousandths of cards are allocated; return whether that was reached."""
        put, log, learner = self._put(), self._log, self._learner
        used = 0
        for step, (asked, at, milli) in enumerate(zip(self._asked, self._at, self._milli, strict=True)):
            if learner is not None and learner.observe_request(self._pods[step].shape):
                with self.watch.paused():
                    learner.learn_workload()
            place = put(asked)
            log.append(place)
            if place is not None:
                used += milli
                if learner is not None:
                    learner.record_allocation(milli)
                if used >= until:
                    return True
            if at in FRAGMENTATION_AT or step % 256 == 0:
                self._look(step, at, progress)
        return False

    def _put(self) -> Callable[[PreparedRequest], RowAndCards | TaskPlacement | None]:
        lots, stream = self._lots, self._stream
        return (
            stream.place_prepared
            if lots is None
            else lambda asked: stream.place_randomly(asked, lots.getrandbits(64))
        )

    def _look(self, step: int, at: int, progress: Progress) -> None:
        with self.watch.paused():
            if at in FRAGMENTATION_AT:
                self._ratio[at].append(self._gauge.unusable_percent())
            progress(step, len(self._asked))

    def depart(self, departures: Departures, seed: int) -> None:
        """End a share of the pods, and move some of the remaining ones."""
        running = {}
        for step, (asked, place) in enumerate(zip(self._asked, self._log, strict=False)):
            if place is not None:
                placement = self._stream.describe_placement(asked, place)
                running[str(step)] = PlacedPod(self._pods[step].request, asked, placement)
        self._departed = depart_pods(self._stream, self._cluster, running, departures, seed=seed)

    def report(self, policy: str, seed: int) -> PackReport:
        """Return the report of the run."""
        packed = tuple(self._packed())
        curve: defaultdict[int, list[float]] = defaultdict(list)
        used = 0
        for entry, milli, at in zip(packed, self._milli, self._at, strict=False):
            used += milli if entry.node else 0
            curve[at].append(round(100 * used / self._capacity, 2))
        return PackReport(
            policy=policy,
            seed=seed,
            arrived_pods=len(packed),
            placed_pods=sum(1 for entry in packed if entry.node),
            refused_multi_gpu_by_95=sum(
                not entry.node and pod.shape.cards > 1 and at <= LATE
                for entry, pod, at in zip(packed, self._pods, self._at, strict=False)
            ),
            curve=tuple(_mean(curve[at]) for at in range(LAST + 1)),
            fragmentation={at: _mean(self._ratio[at]) for at in FRAGMENTATION_AT},
            pods_per_second=len(packed) / self.watch.seconds if self.watch.seconds > 0 else 0.0,
            departed=self._departed,
            packed=packed,
        )

    def _packed(self) -> Iterator[PackedPod]:
        nodes = self._stream.fleet.nodes
        for step, (pod, place) in enumerate(zip(self._pods, self._log, strict=False)):
            if place is None:
                yield PackedPod(step, pod.name, "", ())
            else:
                row, columns = (place.row, place.columns) if isinstance(place, TaskPlacement) else place
                yield PackedPod(step, pod.name, nodes[row].id, columns)


def _capacity(nodes: Sequence[Node]) -> int:
    return sum(len(node.devices) for node in nodes) * CARD


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 2) if values else None
