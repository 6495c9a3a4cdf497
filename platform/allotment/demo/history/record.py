"""Records the demo's week: its jobs run through the engine in virtual time, on the nodes and quotas of the
demo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from allotment.demo.history.jobs import DAY_S, DAYS, DemoJob, draw_week
from allotment.demo.history.predict import ForecastTimes, WeekForecaster, WeekJob, name_job
from allotment.demo.history.recording import RecordedPlace, RecordedPrediction, RecordedRun
from allotment.demo.history.spec_rows import SpecRows
from clusters.models import Cell, Device, Flavor, Node
from scheduling.engine import model as em
from scheduling.engine_input.jobs import engine_job
from scheduling.prediction.virtual_cell import CellWatch, TimeGrid, VirtualCell
from scheduling.services.start_prediction.history import traits_of
from scheduling.services.start_prediction.predict import forecast_config
from scheduling.snapshots import cell_snapshot

_STARTING_S: Final = 20
"""The time between admission and the moment at which all pods run."""


@dataclass(slots=True)
class _Recorder(CellWatch):
    """Records the runs of a virtual cell."""

    begun: float
    nodes: Mapping[str, str]
    flavors: Mapping[str, str]
    gpus: Mapping[str, int]
    now: Callable[[], float]
    runs: list[RecordedRun] = field(default_factory=list)
    live: dict[str, RecordedRun] = field(default_factory=dict)

    def note_decision(self, decision: em.Decision) -> None:
        """Begin or end a run."""
        if decision.kind is em.DecisionKind.ADMIT:
            self.live[decision.job] = self._run_of(decision)
        elif decision.kind is em.DecisionKind.EVICT:
            rule = decision.rule.value if decision.rule else ""
            beneficiary = int(decision.beneficiary) if decision.beneficiary else None
            self._end(decision.job, rule, beneficiary)

    def on_ended(self, at: float, job_id: str) -> None:
        """End a run that ends by itself."""
        self._end(job_id, "", None)

    def all_runs(self) -> list[RecordedRun]:
        """Return every run, including those that have not ended."""
        return [*self.runs, *self.live.values()]

    def _end(self, job: str, rule: str, beneficiary: int | None) -> None:
        run = self.live.pop(job)
        if run.admit_s < self._second():  # a job preempted at the instant of its admission has not run
            self.runs.append(replace(run, end_s=self._second(), rule=rule, beneficiary=beneficiary))

    def _second(self) -> int:
        return round(self.now() - self.begun)

    def _run_of(self, decision: em.Decision) -> RecordedRun:
        flavors = {self.flavors[allocation.flavor] for allocation in decision.allocations}
        (flavor,) = flavors  # a job of the demo has tasks of one flavor
        return RecordedRun(
            job=int(decision.job),
            admit_s=self._second(),
            end_s=None,
            rule="",
            beneficiary=None,
            flavor=flavor,
            borrowed={f"{self.flavors[c.flavor]}/{c.resource}": c.amount for c in decision.borrowed},
            places=tuple(map(self._place_of, decision.allocations)),
        )

    def _place_of(self, allocation: em.Allocation) -> RecordedPlace:
        first = allocation.slices[0]
        return RecordedPlace(
            role=allocation.role,
            index=allocation.index,
            node=self.nodes[allocation.node],
            gpus=tuple(self.gpus[part.device] for part in allocation.slices),
            cores=first.cores,
            memory_mib=first.memory,
            exclusive=first.exclusive,
            cpu=allocation.cpu,
            memory=allocation.memory,
            charge={charge.resource: charge.amount for charge in allocation.charges},
        )


@dataclass(frozen=True, slots=True)
class RecordedWeek:
    """The runs of the week and the predictions of its starts."""

    runs: Sequence[RecordedRun]
    predictions: Sequence[RecordedPrediction]


def record_week(*, start: datetime, days: int = DAYS, jobs: Sequence[DemoJob] | None = None) -> RecordedWeek:
    """Run the week on the demo's cell, and predict the starts of its pending jobs. Nothing is stored."""
    week = draw_week() if jobs is None else jobs
    taken = cell_snapshot(Cell.unscoped.get(name="default").pk)
    known = dict(_read_jobs(week, start))
    virtual = VirtualCell(
        taken.snapshot,
        replace(forecast_config(taken.sharing), actions=("admit",)),
        start.timestamp(),
        lambda job: week[int(job)].run_s + _STARTING_S,
        grid=TimeGrid(coarseness=0.0),
    )
    recorder = _Recorder(
        start.timestamp(),
        {str(pk): name for pk, name in Node.unscoped.values_list("pk", "name")},
        {str(pk): name for pk, name in Flavor.unscoped.values_list("pk", "name")},
        dict(Device.unscoped.values_list("uuid", "index")),
        lambda: virtual.now,
    )
    virtual.watch, virtual.on_decision = recorder, recorder.note_decision
    virtual.add_arrivals([(job.job.submitted_at, job.job) for job in known.values()])
    times = ForecastTimes(start.timestamp(), virtual.snapshot)
    for at, _ in virtual.run_until(start.timestamp() + days * DAY_S):
        times.observe_instant(at)
    runs = sorted(recorder.all_runs(), key=lambda run: (run.admit_s, run.job))
    of_jobs: dict[str, list[RecordedRun]] = {name: [] for name in known}
    for run in runs:
        of_jobs[name_job(run.job)].append(run)
    config = forecast_config(taken.sharing)
    forecaster = WeekForecaster(start.timestamp(), config, known, of_jobs, _STARTING_S)
    return RecordedWeek(runs, forecaster.make_forecasts(times.due))


def _read_jobs(week: Sequence[DemoJob], start: datetime) -> Iterator[tuple[str, WeekJob]]:
    rows = SpecRows.read_references()
    for number, job in enumerate(week):
        made, name = rows.build_rows(job, now=start + timedelta(seconds=job.at_s)), name_job(number)
        as_engine = engine_job(made.job, made.roles, name=name)
        yield name, WeekJob(as_engine, traits_of(made.job, made.roles), job.at_s)
