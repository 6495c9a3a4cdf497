"""Forecasts starts: simulates futures of a cell, and returns the range of starts of each pending job."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from scheduling.engine import EngineConfig, Snapshot
from scheduling.engine.model import Allocation, Job, JobState
from scheduling.prediction.arrivals import ArrivalHistory
from scheduling.prediction.forecast_clock import ForecastClock, OutOfTimeError
from scheduling.prediction.jobs import rename_job
from scheduling.prediction.run_times import JobTraits, RunBasis, RunTimeEstimate, RunTimes, combine_draws
from scheduling.prediction.virtual_cell import CellWatch, VirtualCell, copy_snapshot

LEVELS: Final = (0.02, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of a range: those of the 90 % range, of the 50 % range, and the median. The distribution of
waits is skewed, so that a 90 % range is shorter if it excludes less at its beginning than at its end. At the
last bound the job has started in nine of ten futures."""
FEWEST_FUTURES: Final = 8
"""The least number of futures for a 90 % range."""
SHORTEST_HORIZON_S: Final = 600.0
"""The shortest horizon of a forecast, in seconds; a shorter one is reported as out of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """Bounds of a forecast. `correlation` is that of run times of one user and size within a future.

    `budget_s` is in seconds of the stopwatch. If `FEWEST_FUTURES` up to the horizon take longer, the horizon
    of all futures is shortened; a further future that does not end within the budget is dropped.

    `paired`: all arrivals of a future up to `horizon_s` and all run times are drawn before it is simulated,
    and it is simulated to the horizon, or to the shortened one, so that forecasts of two snapshots with the
    same jobs and seed differ by the snapshots only.
    """

    futures: int = 24
    horizon_s: float = 72 * 3600.0
    correlation: float = 0.4
    budget_s: float | None = None
    paired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of a cell: run times, arrivals, and the traits of the jobs of the snapshot.

    `ran_s` has the longest run of each evicted job, whose run time is longer than that.
    """

    run_times: RunTimes
    arrivals: ArrivalHistory
    traits: Mapping[str, JobTraits]
    ran_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartRange:
    """Quantiles of the seconds until a start, at `LEVELS`; None is beyond the horizon."""

    seconds: tuple[float | None, ...]
    horizon_s: float

    def quantile_at(self, level: float) -> float | None:
        """Return the quantile of one of the `LEVELS`."""
        return self.seconds[LEVELS.index(level)]

    def contains_start(self, seconds: float) -> bool:
        """Return whether a start after so many seconds lies within the 90 % range."""
        return self._contains(self.seconds[0], self.seconds[-1], seconds)

    def contains_likely(self, seconds: float) -> bool:
        """Return whether a start after so many seconds lies within the 50 % range."""
        return self._contains(self.seconds[1], self.seconds[-2], seconds)

    @property
    def width_s(self) -> float:
        """The width of the 90 % range in seconds; a bound beyond the horizon counts as the horizon."""
        low, high = (
            self.horizon_s if bound is None else bound for bound in (self.seconds[0], self.seconds[-1])
        )
        return high - low

    def _contains(self, first: float | None, last: float | None, seconds: float) -> bool:
        earliest = self.horizon_s if first is None else first
        return earliest <= seconds and (last is None or seconds <= last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The ranges of pending jobs; `futures` were simulated, up to `horizon_s` from now.

    `starts` has the seconds until the start of each asked job in each future. If the futures are paired,
    `evictions` has those until the first eviction of each job of the snapshot that is evicted in some of
    them. They are infinite where there is none within the horizon.
    """

    futures: int
    horizon_s: float
    runs: int
    arrivals: int
    cycles: int
    ranges: Mapping[str, StartRange] = field(default_factory=dict)
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    evictions: Mapping[str, Sequence[float]] = field(default_factory=dict)


def forecast_starts(
    snapshot: Snapshot,
    config: EngineConfig,
    history: History,
    *,
    now: float,
    seed: int,
    jobs: Collection[str],
    options: ForecastOptions = ForecastOptions(),
    returning: frozenset[str] = frozenset(),
    stopwatch: Callable[[], float] | None = None,
    report: Callable[[float], None] | None = None,
) -> Forecast:
    """Simulate futures of a cell, and return the range of the start of each pending job in `jobs`.

    The snapshot is not changed. Equal arguments give equal forecasts unless the budget ends them; with fewer
    than `FEWEST_FUTURES` futures there are no ranges. `report` is called often, with the part that is done
    (0 to 1); what it raises ends the forecast.
    """
    clock = ForecastClock(stopwatch, options.budget_s, report, futures=options.futures, fewest=FEWEST_FUTURES)
    asked = {key for key in jobs if snapshot.jobs[key].state is JobState.QUEUED or key in returning}
    estimates = _estimate_live(snapshot, history, now)
    starts: dict[str, list[float]] = {key: [] for key in sorted(asked)}
    evicted: list[Mapping[str, float]] = []
    done, cycles, horizon_s = 0, 0, options.horizon_s
    for number in range(options.futures):
        future = _Future(snapshot, history, estimates, Random(f"{seed}/{number}"), options, now, horizon_s)
        clock.begin_future(done)
        try:
            found, ran = future.run_cycles(config, asked, returning, clock)
        except OutOfTimeError:
            break
        done, cycles, horizon_s = done + 1, cycles + ran, future.reached_s
        for key in starts:
            starts[key].append(found.get(key, math.inf))
        evicted.append(future.evictions.first)
    within = {key: _within(found, horizon_s) for key, found in starts.items()}
    return Forecast(
        futures=done,
        horizon_s=horizon_s,
        runs=history.run_times.ended,
        arrivals=history.arrivals.count_arrivals(),
        cycles=cycles,
        ranges={key: range_of(found, horizon_s) for key, found in within.items()}
        if done >= FEWEST_FUTURES
        else {},
        starts=within,
        evictions={
            key: _within([found.get(key, math.inf) for found in evicted], horizon_s)
            for key in sorted(set().union(*evicted))
        },
    )


def _within(seconds: Sequence[float], horizon_s: float) -> list[float]:
    """Return starts with those beyond the horizon as infinite, because earlier futures may have a longer
    one."""
    return [each if each <= horizon_s else math.inf for each in seconds]


def range_of(seconds: Sequence[float], horizon_s: float) -> StartRange:
    """Return the quantiles of simulated waits; quantiles at or next to infinite waits are None."""
    ranked = sorted(seconds)
    found: list[float | None] = []
    for level in LEVELS:
        # Weibull's plotting position: the first of n futures is at the level 1 / (n + 1).
        place = min(max(level * (len(ranked) + 1) - 1, 0.0), len(ranked) - 1.0)
        low, share = int(place), place - int(place)
        value = ranked[low]
        if share:
            value = value + share * (ranked[low + 1] - value) if math.isfinite(ranked[low + 1]) else math.inf
        found.append(value if math.isfinite(value) else None)
    return StartRange(tuple(found), horizon_s)


def basis_of(history: History, job: Job) -> RunBasis:
    """Return the group of runs from which the run time of a pending job is estimated."""
    return history.run_times.estimate_run_time(history.traits[job.id], limit_s=job.max_run_s).basis


class FirstEvictions(CellWatch):
    """The seconds until the first eviction of each of these jobs; moves to other nodes are not counted."""

    def __init__(self, jobs: Collection[str], now: float) -> None:
        self.first: dict[str, float] = {}
        self._jobs, self._now = frozenset(jobs), now

    def on_evicted(self, at: float, job_id: str) -> None:
        """Called when a job is evicted and queued again."""
        if job_id in self._jobs:
            self.first.setdefault(job_id, at - self._now)

    def on_started(self, at: float, job_id: str, allocations: Sequence[Allocation]) -> None:
        """Called when a job starts; at the instant of its eviction, it was moved."""
        if self.first.get(job_id) == at - self._now:
            del self.first[job_id]


def _estimate_live(snapshot: Snapshot, history: History, now: float) -> Mapping[str, RunTimeEstimate]:
    """Return the run time estimate of each job, for running jobs given their elapsed time."""
    found = {}
    for job in snapshot.jobs.values():
        since = job.attempt_started_at if job.state is JobState.LIVE else None
        elapsed = max(0.0 if since is None else now - since, history.ran_s.get(job.id, 0.0))
        found[job.id] = history.run_times.estimate_run_time(
            history.traits[job.id], elapsed_s=elapsed, limit_s=job.max_run_s
        )
    return found


class _Future:
    """One future, whose only source of randomness is `random`. It is simulated for `reached_s` seconds: up to
    `horizon_s`, or until its time is over."""

    def __init__(
        self,
        snapshot: Snapshot,
        history: History,
        estimates: Mapping[str, RunTimeEstimate],
        random: Random,
        options: ForecastOptions,
        now: float,
        horizon_s: float,
    ) -> None:
        self._snapshot, self._history, self._random, self._options = snapshot, history, random, options
        self._now = now
        self.reached_s = horizon_s
        self.evictions = FirstEvictions(snapshot.jobs, now)
        self._common: dict[tuple[str, int], float] = {}
        self._run_times: dict[str, float] = {}
        self._estimates = dict(estimates)
        self._traits = dict(history.traits)

    def run_cycles(
        self,
        config: EngineConfig,
        asked: Collection[str],
        returning: frozenset[str],
        clock: ForecastClock,
    ) -> tuple[dict[str, float], int]:
        """Return the seconds until the first start of each job in `asked` that starts, and the number of
        cycles."""
        cell = VirtualCell(
            copy_snapshot(self._snapshot), config, self._now, self._run_time, clock.check_budget, returning
        )
        paired = self._options.paired
        if paired:
            cell.watch = self.evictions
            self._draw_run_times(sorted(self._snapshot.jobs))
        for key in sorted(self._snapshot.jobs):
            job = self._snapshot.jobs[key]
            if job.state is JobState.LIVE:
                since = job.attempt_started_at
                begun = self._now if since is None else since
                cell.end_at(key, max(begun + self._run_time(key), self._now + 1.0))
        arrivals = self._arrivals()
        if paired:
            self._draw_run_times(job.id for _at, job in arrivals)
        cell.add_arrivals(arrivals)
        starts: dict[str, float] = {}
        missing = set(asked)
        if missing or paired:
            for at, started in cell.run_until(self._now + self.reached_s):
                for key in missing.intersection(started):
                    starts[key] = at - self._now
                missing.difference_update(started)
                if not missing and not paired:
                    break
                if clock.slot_is_over:
                    self.reached_s = at - self._now
                    if self.reached_s < SHORTEST_HORIZON_S:
                        raise OutOfTimeError
                    break
        return starts, cell.cycles

    def _arrivals(self) -> list[tuple[float, Job]]:
        found = []
        # Arrivals are drawn queue by queue from one stream, so that those of a shorter horizon are others.
        drawn_s = self._options.horizon_s if self._options.paired else self.reached_s
        resampled = self._history.arrivals.draw_arrivals(self._random, drawn_s)
        for number, (at, past) in enumerate(resampled):
            if past.job.queue not in self._snapshot.queues:
                continue
            job = rename_job(past.job, f"arrival-{number:06d}", at)
            self._traits[job.id] = past.traits
            self._estimates[job.id] = self._history.run_times.estimate_run_time(
                past.traits, elapsed_s=past.ran_s, limit_s=job.max_run_s
            )
            if past.ended:
                self._run_times[job.id] = past.ran_s
            found.append((at, job))
        return found

    def _draw_run_times(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._run_time(key)

    def _run_time(self, key: str) -> float:
        """Return the run time of a job in this future, in seconds from its start."""
        known = self._run_times.get(key)
        if known is None:
            known = self._run_times[key] = self._draw(key)
        return known

    def _draw(self, key: str) -> float:
        traits = self._traits[key]
        group = traits.user, traits.size
        if group not in self._common:
            self._common[group] = self._random.gauss(0.0, 1.0)
        share = combine_draws(self._common[group], self._random.gauss(0.0, 1.0), self._options.correlation)
        return self._estimates[key].draw_run_time(self._random.random(), share)
