"""`allotment bench engine-cycle`: one cycle of a large cell, fresh and after a change of one percent.

The first cycle runs on a new snapshot, with a full queue of gangs. Then the cell settles: decisions take
effect, and new gangs are submitted for those that started, until all queued gangs have to wait and a cycle
decides nothing. Before each of the later cycles the last decisions take effect and one percent changes:
running tasks end, gangs are submitted, nodes change. The series repeats the measurement on smaller cells;
time per n log n must not grow with n.

Before that one user submits jobs that all differ, to a small full cell: within the own quota of the queue,
and as a borrower. One user must not make cycles long for all users.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from benchmarks.support.cells import NOW, BenchCell, CellSize, build_cell, different_jobs
from benchmarks.support.churn import carried_out, churn_cell, refill_queue
from benchmarks.support.report import FigureRow, Report, own_peak_rss_mib, read_limits
from foundation.core.garbage_collection import gc_paused
from scheduling.engine import Delta, EngineConfig, FairSharing, UserShares, run_cycle
from scheduling.engine.model import CycleResult, Instant

CONFIG = EngineConfig(
    actions=("pressure", "idle", "admit", "elastic", "consolidate"),
    fair_sharing=FairSharing(),
    stopwatch=time.perf_counter,
)
# The limit that the platform sets, for many jobs of one user.
SHAPES_CONFIG = EngineConfig(
    actions=("pressure", "admit", "consolidate"),
    fair_sharing=FairSharing(),
    user_shares=UserShares(),
)
T = TypeVar("T")
Number = TypeVar("Number", int, float)
CYCLE_S = 30
SHAPES_CYCLES = 6
MILLI = 1000


@dataclass(slots=True)
class Run:
    """The seconds of one cell: for building it, the first cycle, the cycles until it is settled, and each
    later change and cycle. `decided` counts the decisions of the later cycles.
    """

    size: CellSize
    running: int
    built: float
    first: CycleResult
    first_s: float
    settling: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    decided: list[int] = field(default_factory=list)


def run() -> Report:
    """Run the whole series, smallest cell first."""
    bounds = read_limits("engine-cycle")
    shapes = list(_shapes(bounds["shapes"]))
    runs = [measure_cell(nodes, bounds["settling"], bounds["cycles"]) for nodes in bounds["nodes"]]
    largest = runs[-1]
    rows = [
        FigureRow("first cycle, s", largest.first_s, bounds["first_s"]),
        FigureRow("cycle after 1 % change, ms, median", MILLI * _median(largest.later), bounds["warm_ms"]),
        FigureRow("cycle after 1 % change, ms, slowest", MILLI * max(largest.later)),
        FigureRow("decisions after 1 % change, median", _median(largest.decided)),
        FigureRow("cycles until at rest", len(largest.settling)),
        FigureRow("cycles until at rest, s, slowest", max(largest.settling, default=0.0)),
        FigureRow("cycle at rest, ms", MILLI * largest.settling[-1]),
        FigureRow("applying 1 % change, ms, median", MILLI * _median(largest.applied)),
        FigureRow("building the snapshot, s", largest.built),
        FigureRow("peak memory, MiB", own_peak_rss_mib(), bounds["peak_mib"]),
        *(
            FigureRow(f"first cycle, {action}, ms", MILLI * seconds)
            for action, seconds in largest.first.timings.items()
        ),
        *_series(runs, bounds["growth"]),
        *shapes,
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


def measure_cell(nodes: int, settling: int, cycles: int) -> Run:
    """Run one cell: the first cycle, those until it is settled, and some more with a change before each."""
    size = CellSize.for_nodes(nodes)
    cell, built = _timed(lambda: build_cell(size))
    running = len(cell.snapshot.allocations)
    gc.collect()
    result, first_s = _timed(partial(_cycle, cell, NOW))
    found = Run(size, running, built, result, first_s)
    now = NOW
    while result.decisions and len(found.settling) < settling:
        now = Instant(now + CYCLE_S)
        result, taken, _ = _next(cell, result, refill_queue, now)
        found.settling.append(taken)
    for _ in range(cycles):
        now = Instant(now + CYCLE_S)
        result, taken, applied = _next(cell, result, churn_cell, now)
        found.applied.append(applied)
        found.later.append(taken)
        found.decided.append(len(result.decisions))
    return found


def _next(
    cell: BenchCell, last: CycleResult, change: Callable[[BenchCell, Instant], Delta], now: Instant
) -> tuple[CycleResult, float, float]:
    """Apply the last decisions and a change, and run a cycle; return its seconds, and those before it."""
    _, deciding = _timed(partial(_apply, cell, carried_out(cell, last, now)))
    _, changing = _timed(partial(_apply, cell, change(cell, now)))
    gc.collect()
    result, taken = _timed(partial(_cycle, cell, now))
    return result, taken, deciding + changing


def _cycle(cell: BenchCell, now: Instant) -> CycleResult:
    """Run one cycle as the platform does."""
    with gc_paused():
        return run_cycle(cell.snapshot, CONFIG, now)


def _apply(cell: BenchCell, delta: Delta) -> None:
    cell.snapshot.apply_delta(delta)


def _shapes(bounds: Sequence[Mapping[str, float]]) -> Iterator[FigureRow]:
    """Yield the processor time of cycles in which one user's jobs all differ, for growing numbers of jobs.

    The smallest number is first, because the peak of memory includes all earlier cells.
    """
    for bound in bounds:
        jobs = int(bound["jobs"])
        for borrows in (False, True):
            snapshot = different_jobs(jobs, borrows=borrows)
            gc.collect()
            taken = []
            for number in range(SHAPES_CYCLES):
                with gc_paused():
                    begun = time.process_time()
                    run_cycle(snapshot, SHAPES_CONFIG, Instant(NOW + number))
                    taken.append(time.process_time() - begun)
            what = f"{jobs} different jobs of a {'borrower' if borrows else 'user'}"
            yield FigureRow(f"{what}: first cycle, s", taken[0], bound["first_s"])
            yield FigureRow(f"{what}: cycle, ms, median", MILLI * _median(taken[1:]), bound["warm_ms"])
        yield FigureRow(f"{jobs} different jobs: peak memory, MiB", own_peak_rss_mib(), bound["peak_mib"])


def _series(runs: Sequence[Run], growth: float) -> list[FigureRow]:
    """Return each size's times, and their growth from the smallest to the largest relative to n log n."""
    rows = [
        row
        for each in runs
        for row in (
            FigureRow(f"{each.size.nodes} nodes: first cycle, ms", MILLI * each.first_s),
            FigureRow(f"{each.size.nodes} nodes: after 1 %, ms", MILLI * _median(each.later)),
        )
    ]
    small, large = runs[0], runs[-1]
    if small is large:
        return rows
    work = _n_log_n(large.size.nodes) / _n_log_n(small.size.nodes)
    return [
        *rows,
        FigureRow("first cycle, growth over n log n", large.first_s / small.first_s / work, growth),
        FigureRow(
            "after 1 %, growth over n log n", _median(large.later) / _median(small.later) / work, growth
        ),
    ]


def _n_log_n(nodes: int) -> float:
    return nodes * math.log2(nodes)


def _median(values: Sequence[Number]) -> Number:
    return sorted(values)[len(values) // 2]


def _timed(what: Callable[[], T]) -> tuple[T, float]:
    begun = time.perf_counter()
    found = what()
    return found, time.perf_counter() - begun
