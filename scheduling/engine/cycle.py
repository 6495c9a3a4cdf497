"""One cycle: the configured actions over one session, and a result that depends on nothing else."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.engine.actions.advice.advise import advise_never_fitting
from scheduling.engine.actions.advice.cycle import advise_waiting_jobs
from scheduling.engine.actions.advice.trial import FeasibilityTrial
from scheduling.engine.actions.explain_waiting import explain_waiting_jobs
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import CycleResult, Instant, Job, Outcome
from scheduling.engine.placement.feasibility import explain_never_fits
from scheduling.engine.session.config import EngineConfig, ExplainScope
from scheduling.engine.session.plugin_sets import ResolvedPlugins
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot

DEFAULT_CONFIG = EngineConfig()


def run_cycle(snapshot: Snapshot, config: EngineConfig, now: Instant) -> CycleResult:
    """Decide what starts now, and say of every job why it waits.

    The snapshot is worked on under a statement and left exactly as it was; whoever commits the
    decisions tells it with `Snapshot.apply`. `now` is in epoch seconds. Equal arguments give equal
    decisions, whatever the order in which the snapshot's parts were given. What is told to jobs that wait
    is worked out for a bounded number of shapes in each cycle and kept with the snapshot.

    Raises:
        ConfigError: when the configuration, a queue or a flavor names what is not configured.
    """
    session = start_session(snapshot, config, now)
    timings: dict[str, float] = {}
    with snapshot.statement():
        for action in session.tools.actions:
            _timed(config.stopwatch, timings, action.name, lambda run=action.run: run(session))  # type: ignore[misc]
        if config.explain is ExplainScope.ALL:
            _timed(config.stopwatch, timings, "explain", lambda: explain_waiting_jobs(session))
            if config.advise_for != "":
                _timed(config.stopwatch, timings, "advise", lambda: advise_waiting_jobs(session))
    outcomes = tuple(map(session.outcomes.__getitem__, _answered(session)))
    session.counters["considered"] = len(outcomes)
    return CycleResult(
        decisions=tuple(session.decisions),
        outcomes=outcomes,
        counters={name: session.counters[name] for name in sorted(session.counters)},
        considered=tuple(session.considered),
        timings=timings,
    )


def start_session(snapshot: Snapshot, config: EngineConfig, now: Instant) -> Session:
    """A session over the snapshot, with the plug-ins that the configuration names.

    Raises:
        ConfigError: as for `run_cycle`.
    """
    return Session(snapshot, config, _tools(snapshot, config), now)


def _tools(snapshot: Snapshot, config: EngineConfig) -> ResolvedPlugins:
    """The resolved configuration; kept with the snapshot, as most cycles have that of the last one."""
    known = snapshot.kept.get(ResolvedPlugins)
    if isinstance(known, tuple) and known[0] is config:
        tools: ResolvedPlugins = known[1]
        return tools
    tools = resolve_config(config)
    snapshot.kept[ResolvedPlugins] = (config, tools)
    return tools


def _answered(session: Session) -> list[str]:
    """The ids of the jobs that were answered, sorted; nearly all were answered in the last cycle, too."""
    memo, outcomes = session.snapshot.job_memo, session.outcomes
    last = memo.get("answered")
    known = dict.fromkeys(filter(outcomes.__contains__, last)) if isinstance(last, list) else {}
    # What is sorted but for its end is sorted in no time.
    answered = memo["answered"] = sorted({**known, **outcomes})
    return answered


def never_fits(snapshot: Snapshot, job: Job, config: EngineConfig = DEFAULT_CONFIG) -> Outcome | None:
    """Whether no flavor of the job's queue could hold it even if empty; None when one could.

    Broken or cordoned nodes count as usable, since they may come back. The check is a necessary
    condition role by role: a job that passes may still wait for room.

    Raises:
        ConfigError: as for `run_cycle`.
        KeyError: when the snapshot does not have the job's queue.
    """
    queue, rule = snapshot.queues[job.queue], resolve_config(config).rule
    outcome = explain_never_fits(snapshot, rule, queue, job)
    return (
        None
        if outcome is None
        else advise_never_fitting(FeasibilityTrial(snapshot, rule), queue, job, outcome)
    )


def _timed(
    stopwatch: Callable[[], float] | None, timings: dict[str, float], name: str, run: Callable[[], None]
) -> None:
    if stopwatch is None:
        run()
        return
    begun = stopwatch()
    run()
    timings[name] = stopwatch() - begun
