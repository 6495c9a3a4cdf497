"""Predicts the starts of the recorded week's pending jobs, with what was known at each time.

The forecasts are those of the platform: the engine runs on a copy of the cell, with run times and arrivals
drawn from the part of the week that was over. A wait is predicted once, at the next whole five minutes.
Every fourth forecast is recorded, because all of them take an hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from allotment.demo.history.recording import RecordedPrediction, RecordedRun
from foundation.core.garbage_collection import gc_paused
from scheduling.engine import EngineConfig, Snapshot
from scheduling.engine.model import Job, JobState
from scheduling.prediction.arrivals import Arrival, ArrivalHistory
from scheduling.prediction.calibration import Scores, score_open, score_range, widen_range
from scheduling.prediction.forecast import (
    FEWEST_FUTURES,
    ForecastOptions,
    History,
    StartRange,
    basis_of,
    forecast_starts,
)
from scheduling.prediction.run_times import JobTraits, PastRun, RunBasis, RunTimes
from scheduling.prediction.virtual_cell import copy_snapshot
from scheduling.services.start_prediction.history import CUT_SHORT, LEAST_RUNS
from scheduling.services.start_prediction.predict import EVERY

_EVERY_S: Final = round(EVERY.total_seconds())
_RECORDED_OF: Final = 4
"""One of so many forecasts is recorded."""
OPTIONS: Final = ForecastOptions(futures=FEWEST_FUTURES)


@dataclass(frozen=True, slots=True)
class WeekJob:
    """One job of the week as the engine knows it when it is submitted; its traits for estimates of run
    times."""

    job: Job
    traits: JobTraits
    at_s: int


class DueForecast(NamedTuple):
    """A forecast that is due at a second of the week: the cell at that time and the jobs without one."""

    at_s: int
    jobs: tuple[str, ...]
    snapshot: str


class DueRanges(NamedTuple):
    """The simulated ranges of the jobs of a due forecast, and the basis of their run times."""

    ranges: Mapping[str, StartRange]
    bases: Mapping[str, RunBasis]
    futures: int


@dataclass(slots=True)
class ForecastTimes:
    """Takes a snapshot of the recorded cell at each time at which a forecast is due."""

    begun: float
    snapshot: Snapshot
    due: list[DueForecast] = field(default_factory=list)
    _with_forecast: set[tuple[str, int]] = field(default_factory=set)
    _before: tuple[float, Snapshot] | None = None

    def observe_instant(self, at: float) -> None:
        """Record the forecast that was due before an instant, until which the cell did not change."""
        if self._before is not None:
            since, cell = self._before
            at_s = -(-round(since - self.begun) // _EVERY_S) * _EVERY_S
            if self.begun + at_s < at:
                waits = self._new_waits(cell)
                self._with_forecast |= waits
                jobs = tuple(sorted(job for job, _ in waits))
                self.due.append(DueForecast(at_s, jobs, cell.to_json()))
        self._before = (at, copy_snapshot(self.snapshot)) if self._new_waits(self.snapshot) else None

    def _new_waits(self, cell: Snapshot) -> set[tuple[str, int]]:
        waits = {(job.id, job.evictions) for job in cell.jobs.values() if job.state is JobState.QUEUED}
        return waits - self._with_forecast


@dataclass(frozen=True, slots=True)
class WeekForecaster:
    """Makes forecasts of the week from its jobs, by the engine's id, and their runs.

    `starting_s` is the time between an admission and the start of the pods.
    """

    begun: float
    config: EngineConfig
    jobs: Mapping[str, WeekJob]
    runs: Mapping[str, Sequence[RecordedRun]]
    starting_s: int

    def make_forecasts(self, due: Sequence[DueForecast]) -> list[RecordedPrediction]:
        """Return the recorded predictions with their outcomes, in the order in which they were made."""
        made: list[RecordedPrediction] = []
        recorded = due[::_RECORDED_OF]
        with ProcessPoolExecutor() as executor:
            for one, found in zip(recorded, executor.map(self.make_forecast, recorded), strict=True):
                if found is not None:
                    made += [self._report(one.at_s, job, found, made) for job in found.ranges]
        return made

    def make_forecast(self, due: DueForecast) -> DueRanges | None:
        """Return the ranges of the jobs of a due forecast; None while too few runs have ended."""
        cell = Snapshot.from_json(due.snapshot)
        history = self._read_history(due.at_s, cell)
        if history is None:
            return None
        now = self.begun + due.at_s
        with gc_paused():
            forecast = forecast_starts(
                cell, self.config, history, now=now, seed=due.at_s, jobs=due.jobs, options=OPTIONS
            )
        bases = {job: basis_of(history, cell.jobs[job]) for job in due.jobs}
        return DueRanges(forecast.ranges, bases, forecast.futures)

    def _report(
        self, at_s: int, job: str, found: DueRanges, made: Sequence[RecordedPrediction]
    ) -> RecordedPrediction:
        """Return the prediction of a job, widened by the outcomes of its queue that were known."""
        queue, simulated, basis = self.jobs[job].job.queue, found.ranges[job], found.bases[job]
        of_queue = [one for one in made if self.jobs[name_job(one.job)].job.queue == queue]
        scores = _known_scores(of_queue, at_s)
        started = next((run.admit_s for run in self.runs[job] if run.admit_s >= at_s), None)
        return RecordedPrediction(
            job=int(job),
            made_s=at_s,
            started_s=started,
            bounds=_whole(widen_range(simulated, scores)),
            simulated=_whole(simulated),
            horizon_s=int(simulated.horizon_s),
            futures=found.futures,
            runs=basis.runs,
            run_group=basis.level.value,
            outcomes=len(scores),
        )

    def _read_history(self, at_s: int, cell: Snapshot) -> History | None:
        known = {name: job for name, job in self.jobs.items() if job.at_s <= at_s}
        pasts = {name: list(self._past_runs(name, at_s)) for name in known}
        if sum(run.ended for past in pasts.values() for run in past) < LEAST_RUNS:
            return None
        arrivals = [
            Arrival(
                self.begun + job.at_s,
                job.job,
                job.traits,
                max((run.seconds for run in pasts[name]), default=0.0),
                any(run.ended for run in pasts[name]),
            )
            for name, job in known.items()
        ]
        return History(
            run_times=RunTimes(run for past in pasts.values() for run in past),
            arrivals=ArrivalHistory(arrivals, since=min(one.at for one in arrivals), until=self.begun + at_s),
            traits={name: self.jobs[name].traits for name in cell.jobs},
            ran_s={name: max(cut) for name in cell.jobs if (cut := list(self._cut_runs(name, at_s)))},
        )

    def _past_runs(self, name: str, at_s: int) -> Iterator[PastRun]:
        for run in self.runs[name]:
            if run.admit_s > at_s:
                return
            is_over = run.end_s is not None and run.end_s <= at_s
            last = run.end_s if is_over and run.end_s is not None else at_s
            begun = run.admit_s + self.starting_s
            if last > begun or not is_over:
                seconds = max(last - begun, 1) if last > begun else max(last - run.admit_s, 1)
                own_end = is_over and run.rule not in CUT_SHORT
                yield PastRun(self.jobs[name].traits, float(seconds), own_end)

    def _cut_runs(self, name: str, at_s: int) -> Iterator[float]:
        for run in self.runs[name]:
            if run.end_s is not None and run.end_s <= at_s and run.rule in CUT_SHORT:
                yield float(max(run.end_s - run.admit_s - self.starting_s, 1))


def name_job(number: int) -> str:
    """Return the engine's id of a job of the week."""
    return f"{number:06}"


def _whole(found: StartRange) -> tuple[int | None, ...]:
    return tuple(None if seconds is None else round(seconds) for seconds in found.seconds)


def _known_scores(made: Sequence[RecordedPrediction], at_s: int) -> list[Scores]:
    known: list[tuple[int, Scores]] = []
    for one in made:
        found = StartRange(one.simulated, one.horizon_s)
        if one.started_s is not None and one.started_s <= at_s:
            known.append((one.started_s, score_range(found, one.started_s - one.made_s)))
        elif (score := score_open(found, at_s - one.made_s)) is not None:
            known.append((at_s, score))
    return [score for _, score in sorted(known, key=lambda scored: scored[0])]
