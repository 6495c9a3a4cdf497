"""`allotment bench engine-cycle`: one cycle of a large cell, fresh and after one percent has changed.

The first cycle runs on a snapshot that no cycle has seen. Before each of the others the last decisions
take effect and one percent changes: running tasks end, gangs come, nodes change. The series repeats the
measurement on smaller cells; time per n log n must not grow with them.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.cells import NOW, Cell, CellSize, build
from benchmarks.churn import carried_out, churn
from benchmarks.report import Report, Row, limits, own_peak_rss_mib
from scheduling.engine import EngineConfig, FairSharing, run_cycle
from scheduling.engine.model import CycleResult, Instant

CONFIG = EngineConfig(
    actions=("pressure", "stale_gang", "time_limit", "idle", "admit", "elastic", "consolidate"),
    fair_sharing=FairSharing(),
    stopwatch=time.perf_counter,
)
T = TypeVar("T")
CYCLE_S = 30
MILLI = 1000


@dataclass(slots=True)
class Run:
    """What one cell took: seconds to build it, for the first cycle, for each change, for each later cycle."""

    size: CellSize
    running: int
    built: float
    first: CycleResult
    first_s: float
    applied: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)


def run() -> Report:
    """The whole series, smallest cell first."""
    bounds = limits("engine-cycle")
    runs = [measure(nodes, bounds["cycles"]) for nodes in bounds["nodes"]]
    largest = runs[-1]
    rows = [
        Row("first cycle, s", largest.first_s, bounds["first_s"]),
        Row("cycle after 1 % change, ms, median", MILLI * _median(largest.later), bounds["warm_ms"]),
        Row("cycle after 1 % change, ms, slowest", MILLI * max(largest.later)),
        Row("applying 1 % change, ms, median", MILLI * _median(largest.applied)),
        Row("building the snapshot, s", largest.built),
        Row("peak memory, MiB", own_peak_rss_mib(), bounds["peak_mib"]),
        *(
            Row(f"first cycle, {action}, ms", MILLI * seconds)
            for action, seconds in largest.first.timings.items()
        ),
        *_series(runs, bounds["growth"]),
    ]
    seconds = largest.first_s + sum(largest.later)
    return Report(
        name="engine-cycle",
        size={
            "nodes": largest.size.nodes,
            "queues": largest.size.queues,
            "running tasks": largest.running,
            "pending gangs": largest.size.gangs,
        },
        rows=rows,
        seconds=seconds,
        rate=(1 + len(largest.later)) / seconds,
        latencies_s=largest.later,
    )


def measure(nodes: int, cycles: int) -> Run:
    """One cell: the first cycle, and some more with a change before each."""
    size = CellSize.of(nodes)
    cell, built = _timed(lambda: build(size))
    running = len(cell.snapshot.allocations)
    gc.collect()
    result, first_s = _timed(lambda: run_cycle(cell.snapshot, CONFIG, NOW))
    found = Run(size, running, built, result, first_s)
    for number in range(1, cycles + 1):
        result = _advance(cell, found, result, Instant(NOW + number * CYCLE_S))
    return found


def _advance(cell: Cell, found: Run, last: CycleResult, now: Instant) -> CycleResult:
    decided = carried_out(cell, last, now)
    _, deciding = _timed(lambda: cell.snapshot.apply(decided))
    changed = churn(cell, now)
    _, changing = _timed(lambda: cell.snapshot.apply(changed))
    gc.collect()
    result, taken = _timed(lambda: run_cycle(cell.snapshot, CONFIG, now))
    found.applied.append(deciding + changing)
    found.later.append(taken)
    return result


def _series(runs: Sequence[Run], growth: float) -> list[Row]:
    """Each size's times, and how much faster than n log n they grow from the smallest to the largest."""
    rows = [
        row
        for each in runs
        for row in (
            Row(f"{each.size.nodes} nodes: first cycle, ms", MILLI * each.first_s),
            Row(f"{each.size.nodes} nodes: after 1 %, ms", MILLI * _median(each.later)),
        )
    ]
    small, large = runs[0], runs[-1]
    if small is large:
        return rows
    work = _n_log_n(large.size.nodes) / _n_log_n(small.size.nodes)
    return [
        *rows,
        Row("first cycle, growth over n log n", large.first_s / small.first_s / work, growth),
        Row("after 1 %, growth over n log n", _median(large.later) / _median(small.later) / work, growth),
    ]


def _n_log_n(nodes: int) -> float:
    return nodes * math.log2(nodes)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _timed(what: Callable[[], T]) -> tuple[T, float]:
    begun = time.perf_counter()
    found = what()
    return found, time.perf_counter() - begun
