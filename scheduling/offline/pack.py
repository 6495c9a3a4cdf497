"""The packing run: pods arrive in a given order, take a place or are dropped, and nothing leaves.

The run asks the engine for every place; here arrivals are counted and curves are drawn.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scheduling.engine import Asked, EngineConfig, FragmentationGauge, PlacementStream, Seat, Workload
from scheduling.engine.model import Node
from scheduling.offline.errors import UsageError
from scheduling.offline.openb import CARD, Pod, flavor

# All but `random` meet their published curve; that one draws its own lots, the published ones being lost.
RANDOM = "random"
OFFERED = (RANDOM, "dotprod", "clustering", "packing", "bestfit", "fgd")
KNOWN = (*OFFERED, "default")
LAST = 130
FRAGMENTATION_AT = (50, 80, 90)
LATE = 95

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """A progress display that shows nothing."""


@dataclass(frozen=True, slots=True)
class PackedPod:
    """Where one arrival went; an empty node means that it was dropped."""

    step: int
    pod: str
    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """The result of a run; percentages are of all cards.

    `curve[k]` is the mean allocation while k % of the capacity had arrived, None where no pod arrived
    at that point. `whole_nodes_opened` belongs to departures and is None without them.
    """

    policy: str
    seed: int
    arrived_pods: int
    placed_pods: int
    refused_multi_gpu_by_95: int
    curve: tuple[float | None, ...]
    fragmentation: dict[int, float | None]
    pods_per_second: float
    moves: int = 0
    whole_nodes_opened: int | None = None
    placements: str | None = None
    packed: tuple[PackedPod, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """The fixed keys of the command's JSON."""
        return {
            "policy": self.policy,
            "seed": self.seed,
            "arrived_pods": self.arrived_pods,
            "placed_pods": self.placed_pods,
            "refused_multi_gpu_by_95": self.refused_multi_gpu_by_95,
            "whole_nodes_opened": self.whole_nodes_opened,
            "moves": self.moves,
            "allocation_percent": {"100": self.curve[100], "130": self.curve[LAST]},
            "curve": list(self.curve),
            "fragmentation_percent": {str(at): self.fragmentation[at] for at in FRAGMENTATION_AT},
            "pods_per_second": round(self.pods_per_second, 1),
            "placements": self.placements,
        }


def check_policy(policy: str) -> None:
    """Raise UsageError for a policy that is unknown or not offered."""
    if policy not in KNOWN:
        raise UsageError(f"there is no policy {policy!r}; offered: {', '.join(OFFERED)}")
    if policy not in OFFERED:
        raise UsageError(
            f"the policy {policy!r} is not offered in this version; offered: {', '.join(OFFERED)}"
        )


def run_pack(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    order: Sequence[int],
    *,
    policy: str,
    seed: int,
    stopwatch: Callable[[], float] = time.perf_counter,
    progress: Progress = silent,
) -> PackReport:
    """Let the pods arrive in order; `order` indexes `pods`, modulo its length where lists are repeated.

    Raises:
        UsageError: for a policy that is not offered, or when there is nothing to pack.
    """
    check_policy(policy)
    capacity = sum(len(node.devices) for node in nodes) * CARD
    if not capacity or not order:
        raise UsageError("there are no cards or no arrivals to pack")
    run = _Run(nodes, pods, capacity, policy, seed, stopwatch)
    for step, index in enumerate(order):
        run.arrive(step, index % len(pods))
        if step % 256 == 0:
            progress(step, len(order))
    progress(len(order), len(order))
    return run.report(policy, seed)


class _Run:
    """Counts of one run."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        capacity: int,
        policy: str,
        seed: int,
        stopwatch: Callable[[], float],
    ) -> None:
        workload = Workload.of(pod.shape for pod in pods)
        # Drawing lots needs feasibility only, so any policy of the engine does.
        by = "compact" if policy == RANDOM else policy
        self._stream = PlacementStream(nodes, flavor(by), EngineConfig(), workload)
        self._pods = pods
        self._asked = self._stream.expect(pod.request for pod in pods)
        self._lots = Random(seed) if policy == RANDOM else None
        self._gauge = FragmentationGauge(self._stream.fleet, workload.typical())
        self._capacity = capacity
        self._stopwatch = stopwatch
        self._seconds = 0.0
        self._arrived = self._used = self._refused_multi = 0
        self._alloc: defaultdict[int, list[float]] = defaultdict(list)
        self._ratio: defaultdict[int, list[float]] = defaultdict(list)
        self._packed: list[PackedPod] = []

    def arrive(self, step: int, index: int) -> None:
        pod, asked = self._pods[index], self._asked[index]
        begun = self._stopwatch()
        seat = self._stream.seat(asked) if self._lots is None else self._drawn(asked, self._lots)
        self._seconds += self._stopwatch() - begun
        self._arrived += pod.milli
        if seat is not None:
            self._used += pod.milli
        at = round(100 * self._arrived / self._capacity)
        if seat is None and pod.shape.cards > 1 and at <= LATE:
            self._refused_multi += 1
        self._alloc[at].append(round(100 * self._used / self._capacity, 2))
        if at in FRAGMENTATION_AT:
            self._ratio[at].append(self._gauge.percent())
        node, devices = ("", ()) if seat is None else (seat.node, seat.columns)
        self._packed.append(PackedPod(step, pod.name, node, devices))

    def _drawn(self, asked: Asked, lots: Random) -> Seat | None:
        return self._stream.by_lot(asked, lots.getrandbits(64))

    def report(self, policy: str, seed: int) -> PackReport:
        placed = sum(1 for entry in self._packed if entry.node)
        return PackReport(
            policy=policy,
            seed=seed,
            arrived_pods=len(self._packed),
            placed_pods=placed,
            refused_multi_gpu_by_95=self._refused_multi,
            curve=tuple(_mean(self._alloc[at]) for at in range(LAST + 1)),
            fragmentation={at: _mean(self._ratio[at]) for at in FRAGMENTATION_AT},
            pods_per_second=len(self._packed) / self._seconds if self._seconds > 0 else 0.0,
            packed=tuple(self._packed),
        )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 2) if values else None
