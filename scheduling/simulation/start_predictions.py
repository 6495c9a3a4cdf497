"""Evaluates expected starts on a trace: during a replay the starts of pending jobs are predicted.

There is one prediction for each wait, after the job has waited for `ASK_AFTER_S`, at the next whole multiple
of that. It uses only what was known then: ended runs, current runs and arrivals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Final

from scheduling.engine import Snapshot
from scheduling.engine.model import Job, Node, QuotaNode
from scheduling.prediction.arrivals import Arrival, ArrivalHistory
from scheduling.prediction.calibration import Scores, score_open, score_range, widen_range
from scheduling.prediction.forecast import (
    Forecast,
    ForecastOptions,
    History,
    StartRange,
    forecast_starts,
)
from scheduling.prediction.run_times import JobTraits, PastRun, RunTimes
from scheduling.simulation.clock import Record, Replay
from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.pools import build_config, engine_job, pool_policy

ASK_AFTER_S: Final = 300
LEAST_RUNS: Final = 50
"""The number of ended runs before the first prediction."""


@dataclass(frozen=True, slots=True)
class AskedStart:
    """One prediction of a replay and its outcome, in seconds of the trace."""

    job: str
    tenant: str
    waiting_since: int
    made_at: int
    started_at: int
    simulated: StartRange
    reported: StartRange

    @property
    def wait_s(self) -> int:
        """The total wait, from submission or eviction to the start."""
        return self.started_at - self.waiting_since

    @property
    def seconds(self) -> int:
        """The part of the wait that was predicted."""
        return self.started_at - self.made_at


@dataclass(frozen=True, slots=True)
class _Question:
    """The input of a prediction, which is made in another process."""

    at: int
    jobs: tuple[str, ...]
    nodes: tuple[Node, ...]
    quota_nodes: tuple[QuotaNode, ...]
    parts: Mapping[str, tuple[object, ...]]
    runs: tuple[PastRun, ...]
    arrivals: tuple[Arrival, ...]
    traits: Mapping[str, JobTraits]
    ran_s: Mapping[str, float]
    since: float
    policy: str
    options: ForecastOptions


@dataclass(slots=True)
class _Story:
    """The state of one job so far. `cut_short` has the seconds of runs that were evicted."""

    record: Record
    job: Job
    traits: JobTraits
    waiting_since: int
    started_at: int | None = None
    finished_at: int | None = None
    cut_short: list[int] = field(default_factory=list)

    def run_until(self, at: int) -> int:
        """Return the seconds of the current or last run until an instant."""
        if self.started_at is None:
            return 0
        return (at if self.finished_at is None else self.finished_at) - self.started_at


@dataclass(slots=True)
class _Waited:
    """A wait with a prediction: when it was predicted, and when the job started."""

    job: str
    tenant: str
    since: int
    asked_at: int
    started_at: int | None = None


class PredictionWatch:
    """An observer of a replay that requests predictions at the instants that `asks` allows."""

    def __init__(
        self,
        tenants: Sequence[TraceTenant],
        policy: str,
        options: ForecastOptions,
        *,
        executor: Executor,
        asks: Callable[[int], bool],
    ) -> None:
        self._policy, self._options, self._executor, self._asks = policy, options, executor, asks
        self._cards = max(tenant.cards_per_node for tenant in tenants)
        self._stories: dict[str, _Story] = {}
        self._due: defaultdict[int, list[str]] = defaultdict(list)
        self._ended = 0
        self.waits: list[_Waited] = []
        self._open_waits: defaultdict[str, list[_Waited]] = defaultdict(list)
        self.answers: dict[int, Future[Forecast]] = {}

    def on_submitted(self, at: int, record: Record) -> None:
        job = engine_job(record.job, pool_policy(self._policy), self._cards)
        traits = JobTraits(record.job.tenant, record.job.tenant, "", "", record.job.gpus)
        self._stories[job.id] = _Story(record, job, traits, at)
        self._expect_question(at, job.id)

    def on_started(self, at: int, record: Record) -> None:
        story = self._stories[f"{record.job.row:08d}"]
        story.started_at = at
        for wait in self._open_waits.pop(story.job.id, ()):
            wait.started_at = at

    def on_evicted(self, at: int, record: Record) -> None:
        story = self._stories[f"{record.job.row:08d}"]
        if story.started_at is not None:
            story.cut_short.append(at - story.started_at)
        story.started_at, story.waiting_since = None, at
        self._expect_question(at, story.job.id)

    def on_finished(self, at: int, record: Record) -> None:
        self._stories[f"{record.job.row:08d}"].finished_at = at
        self._ended += 1

    def on_settled(self, at: int) -> None:
        """Do nothing: predictions are requested before an instant."""

    def _expect_question(self, at: int, job: str) -> None:
        self._due[-(-(at + ASK_AFTER_S) // ASK_AFTER_S) * ASK_AFTER_S].append(job)

    def before_instant(self, now: int, snapshot: Snapshot) -> None:
        """Request the predictions that were due before this instant; the cell has not changed since."""
        for at in sorted(at for at in self._due if at < now):
            due = self._due.pop(at)
            asked = [
                job
                for job in due
                if (story := self._stories[job]).started_at is None
                and story.waiting_since <= at - ASK_AFTER_S
            ]
            if asked and self._ended >= LEAST_RUNS and self._asks(at):
                self._ask(at, sorted(set(asked)), snapshot)

    def _ask(self, at: int, jobs: list[str], snapshot: Snapshot) -> None:
        for job in jobs:
            story = self._stories[job]
            wait = _Waited(job, story.record.job.tenant, story.waiting_since, at)
            self.waits.append(wait)
            self._open_waits[job].append(wait)
        stories = self._stories
        question = _Question(
            at=at,
            jobs=tuple(jobs),
            nodes=snapshot.export_nodes(),
            quota_nodes=snapshot.export_quota_nodes(),
            parts={
                "flavors": tuple(snapshot.flavors.values()),
                "queues": tuple(snapshot.queues.values()),
                "jobs": tuple(snapshot.jobs.values()),
                "allocations": tuple(snapshot.allocations.values()),
                "claims": tuple(snapshot.claims.values()),
            },
            runs=tuple(_runs_of(stories.values(), at)),
            arrivals=tuple(_arrivals_of(stories.values(), at)),
            traits={job: stories[job].traits for job in snapshot.jobs},
            ran_s={job: max(cut) for job in snapshot.jobs if (cut := stories[job].cut_short)},
            since=min(story.record.job.submit_s for story in stories.values()),
            policy=self._policy,
            options=self._options,
        )
        self.answers[at] = self._executor.submit(answer_question, question)


def _runs_of(stories: Iterable[_Story], at: int) -> Iterable[PastRun]:
    for story in stories:
        yield from (PastRun(story.traits, seconds, ended=False) for seconds in story.cut_short)
        if story.started_at is not None:
            yield PastRun(story.traits, story.run_until(at), story.finished_at is not None)


def _arrivals_of(stories: Iterable[_Story], at: int) -> Iterable[Arrival]:
    for story in stories:
        longest = max((story.run_until(at), *story.cut_short))
        ended = story.finished_at is not None
        yield Arrival(story.record.job.submit_s, story.job, story.traits, longest, ended)


def answer_question(question: _Question) -> Forecast:
    """Return the forecast for one question."""
    snapshot = Snapshot(
        nodes=question.nodes,
        quota_nodes=question.quota_nodes,
        **question.parts,  # type: ignore[arg-type]
    )
    history = History(
        run_times=RunTimes(question.runs),
        arrivals=ArrivalHistory(question.arrivals, since=question.since, until=question.at),
        traits=question.traits,
        ran_s=question.ran_s,
    )
    return forecast_starts(
        snapshot,
        build_config(pool_policy(question.policy)),
        history,
        now=question.at,
        seed=question.at,
        jobs=question.jobs,
        options=question.options,
    )


def replay_predictions(
    jobs: Sequence[TraceJob],
    tenants: Sequence[TraceTenant],
    *,
    policy: str,
    options: ForecastOptions,
    executor: Executor,
    asks: Callable[[int], bool],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[AskedStart]:
    """Replay the trace and return every prediction with its outcome, in the order in which they were made.

    `asks` selects the instants of the trace at which predictions are made. Ranges are widened by the outcomes
    that were known at that time.
    """
    watch = PredictionWatch(tenants, policy, options, executor=executor, asks=asks)
    replay = Replay(tenants, pool_policy(policy), (watch,), before_instant=watch.before_instant)
    replay.run(jobs, progress)
    return report_ranges(watch.waits, {at: answer.result() for at, answer in watch.answers.items()})


def report_ranges(waits: Sequence[_Waited], answers: Mapping[int, Forecast]) -> list[AskedStart]:
    """Return the predictions as they would have been reported, widened by the outcomes known at that time."""
    reported: list[AskedStart] = []
    for wait in sorted(waits, key=lambda wait: (wait.asked_at, wait.job)):
        found = answers[wait.asked_at].ranges.get(wait.job)
        if found is None or wait.started_at is None:
            continue
        known = [
            _score(one, wait.asked_at)
            for one in reported
            if one.made_at < wait.asked_at and one.tenant == wait.tenant
        ]
        reported.append(
            AskedStart(
                wait.job,
                wait.tenant,
                wait.since,
                wait.asked_at,
                wait.started_at,
                found,
                widen_range(found, [score for score in known if score is not None]),
            )
        )
    return reported


def _score(asked: AskedStart, now: int) -> Scores | None:
    """Return the scores of an earlier prediction, as far as they are known; None while they are unknown."""
    if asked.started_at < now:
        return score_range(asked.simulated, asked.started_at - asked.made_at)
    return score_open(asked.simulated, now - asked.made_at)
