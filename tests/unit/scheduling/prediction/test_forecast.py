"""Futures of small worlds, against an enumeration of all that can happen in them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count, product
from random import Random

import pytest

from scheduling.engine import Delta, JobPut, Snapshot, run_cycle
from scheduling.engine.model import Instant, Job, JobState
from scheduling.prediction.arrivals import Arrival, ArrivalHistory
from scheduling.prediction.forecast import (
    LEVELS,
    SHORTEST_HORIZON_S,
    Forecast,
    ForecastOptions,
    History,
    StartRange,
    forecast_starts,
    range_of,
)
from scheduling.prediction.run_times import JobTraits, PastRun, RunTimes
from scheduling.prediction.virtual_cell import VirtualCell, copy_snapshot
from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.pools import build_config, build_world, engine_job, pool_policy

POLICY = pool_policy("shared-fifo")
CONFIG = build_config(POLICY)
NOW = 1_000_000.0
TRAITS = JobTraits("t", "t", "", "", 1)
LONG, SHORT = 4_000.0, 1_000.0


def job(row: int, gpus: int = 1, at: float = NOW) -> Job:
    return engine_job(TraceJob(row, f"t-{row}", "t", int(at), gpus, 0), POLICY, 2)


def cell(running: int, waiting: int) -> tuple[Snapshot, list[str]]:
    """A node with as many GPUs as there are running jobs, which began just now, and jobs that wait."""
    snapshot = build_world([TraceTenant("t", 1, running)], POLICY)
    virtual = VirtualCell(snapshot, CONFIG, NOW, lambda key: math.inf)
    snapshot.apply_delta(Delta(tuple(JobPut(job(row)) for row in range(running))))
    next(virtual.run_until(NOW))
    names = [job(row).id for row in range(running, running + waiting)]
    snapshot.apply_delta(Delta(tuple(JobPut(job(row)) for row in range(running, running + waiting))))
    return snapshot, names


def history(snapshot: Snapshot, arrivals: list[Arrival] | None = None) -> History:
    runs = [PastRun(TRAITS, seconds, True) for seconds in (SHORT, LONG) for _ in range(500)]
    past = ArrivalHistory(arrivals or [], since=NOW - 10 * 86_400, until=NOW)
    return History(run_times=RunTimes(runs), arrivals=past, traits=dict.fromkeys(snapshot.jobs, TRAITS))


def forecast(snapshot: Snapshot, known: History, jobs: list[str], **options: float) -> Forecast:
    bounds = ForecastOptions(**{"futures": 100, "correlation": 0.0, "horizon_s": 36_000.0} | options)  # type: ignore[arg-type]
    return forecast_starts(snapshot, CONFIG, known, now=NOW, seed=7, jobs=jobs, options=bounds)


def enumerate_starts(gpus: int, waiting: int) -> list[list[float]]:
    """The starts of each waiting job over all equally likely run times: first come, first served."""
    starts: list[list[float]] = [[] for _ in range(waiting)]
    for times in product((SHORT, LONG), repeat=gpus + waiting):
        free = sorted(times[:gpus])
        for place, seconds in enumerate(times[gpus:]):
            at = free.pop(0)
            starts[place].append(at)
            free = sorted([*free, at + seconds])
    return starts


@pytest.mark.parametrize(("gpus", "waiting"), [(1, 1), (1, 2), (2, 2)])
def test_ranges_are_those_of_all_that_can_happen(gpus: int, waiting: int) -> None:
    snapshot, names = cell(gpus, waiting)

    found = forecast(snapshot, history(snapshot), names)

    for name, expected in zip(names, enumerate_starts(gpus, waiting), strict=True):
        ranked = sorted(expected)
        for level in LEVELS:
            # Within the quantiles around it: 100 futures are a sample, and instants lie on a grid of 3 %.
            low, high = (
                ranked[min(max(int(share * len(ranked)), 0), len(ranked) - 1)]
                for share in (level - 0.12, level + 0.12)
            )
            seconds = found.ranges[name].quantile_at(level)
            assert seconds is not None and low * 0.999 <= seconds <= high * 1.04 + 16.0, (name, level)


def test_a_seed_repeats_and_the_snapshot_is_left_as_it_was() -> None:
    snapshot, names = cell(2, 3)
    before = snapshot.to_json()
    known = history(snapshot, [arrival(day) for day in range(9)])

    one, other = (forecast(snapshot, known, names, futures=20) for _ in range(2))

    assert one == other
    assert snapshot.to_json() == before
    assert one.futures == 20 and one.runs == 1_000 and one.arrivals == 9


def arrival(day: int) -> Arrival:
    at = NOW - (day + 1) * 86_400 + 30.0
    return Arrival(at, job(900 + day, at=at), TRAITS, 50.0, True)


def test_a_start_beyond_the_horizon_is_said_to_be_that() -> None:
    snapshot, names = cell(1, 2)

    found = forecast(snapshot, history(snapshot), names, horizon_s=1_500.0)

    first = found.ranges[names[0]]
    assert first.quantile_at(0.25) == pytest.approx(SHORT, rel=0.04) and first.quantile_at(0.75) is None
    assert found.ranges[names[1]].seconds == (None,) * 5
    assert first.contains_start(5_000.0) and not first.contains_start(10.0)
    # Nothing was said to be earlier than the horizon, so an early start is a miss, and a late one is none.
    assert not found.ranges[names[1]].contains_start(10.0)
    assert found.ranges[names[1]].contains_start(1_501.0)


def test_too_little_time_gives_no_range() -> None:
    snapshot, names = cell(1, 1)
    ticks = count()
    options = ForecastOptions(futures=50, budget_s=5.0)
    found = forecast_starts(
        snapshot,
        CONFIG,
        history(snapshot),
        now=NOW,
        seed=1,
        jobs=names,
        options=options,
        stopwatch=lambda: float(next(ticks)),
    )

    assert found.futures < 8 and not found.ranges


@pytest.mark.parametrize("budget_s", [200.0, 300.0, 450.0])
def test_a_short_budget_shortens_the_horizon_and_changes_no_bound_within_it(budget_s: float) -> None:
    """Eight futures that would take longer are all followed less far; the time does not run out."""
    snapshot, names = cell(2, 30)
    known, ticks = history(snapshot), count()
    options = ForecastOptions(futures=8, correlation=0.0, horizon_s=360_000.0)

    found = forecast_starts(
        snapshot,
        CONFIG,
        known,
        now=NOW,
        seed=7,
        jobs=names,
        options=replace(options, budget_s=budget_s),
        stopwatch=lambda: float(next(ticks)),
    )
    whole = forecast(snapshot, known, names, futures=8, horizon_s=360_000.0)

    assert found.futures == 8 and next(ticks) <= budget_s + 1
    assert SHORTEST_HORIZON_S <= found.horizon_s < 360_000.0
    bounds = [
        pair
        for name in names
        for pair in zip(found.ranges[name].seconds, whole.ranges[name].seconds, strict=True)
    ]
    assert all(cut == full for cut, full in bounds if cut is not None)
    # What is beyond the shorter horizon starts later than that, and not never.
    assert all(full is not None and full > found.horizon_s * 0.8 for cut, full in bounds if cut is None)
    assert {cut is None for cut, _ in bounds} == {True, False}
    assert {found.ranges[name].horizon_s for name in names} == {found.horizon_s}


def test_paired_futures_have_the_same_arrivals_and_run_times_if_the_horizon_is_shortened() -> None:
    """Urgent jobs arrive at hours that differ by day in two queues, and their run times are drawn."""
    tenants = [TraceTenant(name, 1, 2) for name in ("t", "u")]
    snapshot, random = build_world(tenants, POLICY), Random(5)
    waits = [
        engine_job(TraceJob(row, f"x-{row}", "tu"[row % 2], int(NOW), 1, 0), POLICY, 2) for row in range(30)
    ]
    snapshot.apply_delta(Delta(tuple(map(JobPut, waits))))
    past = []
    for row in range(100, 200):
        at = NOW - random.uniform(0.0, 9.9) * 86_400
        came = engine_job(TraceJob(row, f"x-{row}", "tu"[row % 2], int(at), 1, 0), POLICY, 2)
        past.append(Arrival(at, replace(came, priority=10**6), TRAITS, 50.0, False))
    known, names = history(snapshot, past), [job.id for job in waits]
    options = ForecastOptions(futures=8, correlation=0.4, horizon_s=200_000.0, paired=True)

    def run(budget_s: float | None) -> Forecast:
        ticks = count()
        return forecast_starts(
            snapshot, CONFIG, known, now=NOW, seed=7, jobs=names,
            options=replace(options, budget_s=budget_s), stopwatch=lambda: float(next(ticks)),
        )  # fmt: skip

    whole, cut = run(None), run(900.0)

    assert cut.futures == 8 and SHORTEST_HORIZON_S <= cut.horizon_s < whole.horizon_s
    for name in names:
        within = [at if at <= cut.horizon_s else math.inf for at in whole.starts[name]]
        assert cut.starts[name] == within, name
    assert any(math.isfinite(at) for found in cut.starts.values() for at in found)


def test_evicted_jobs_wait_again_and_their_place_is_taken() -> None:
    snapshot, names = cell(1, 1)
    running = job(0).id
    snapshot.apply_delta(Delta((JobPut(_leaving(snapshot.jobs[running])),)))
    virtual = VirtualCell(
        copy_snapshot(snapshot), CONFIG, NOW, lambda key: 100.0, returning=frozenset((running,))
    )

    starts = {key: at - NOW for at, started in virtual.run_until(NOW + 1_000.0) for key in started}

    assert starts == {names[0]: 0.0, running: 100.0} or starts == {running: 0.0, names[0]: 100.0}


def _leaving(found: Job) -> Job:
    return Job(
        **{name: getattr(found, name) for name in Job.__dataclass_fields__} | {"state": JobState.LEAVING}
    )


@pytest.mark.parametrize("number", range(3))
def test_a_copy_decides_as_its_original(number: int) -> None:
    snapshot, _ = cell(2, Random(number).randint(1, 5))

    copied = copy_snapshot(snapshot)

    assert copied.to_json() == snapshot.to_json()
    later = Instant(NOW + 5)
    assert run_cycle(copied, CONFIG, later) == run_cycle(snapshot, CONFIG, later)


def test_quantiles_next_to_what_never_started_lie_beyond() -> None:
    found = range_of([10.0] * 9 + [math.inf], 100.0)

    assert found == StartRange((10.0, 10.0, 10.0, 10.0, None), 100.0)
