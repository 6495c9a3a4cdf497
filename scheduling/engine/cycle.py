"""This module runs one cycle: the configured actions over one session; nothing else affects the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scheduling.engine.actions.advice.advise import advise_never_fitting
from scheduling.engine.actions.advice.cycle import advise_waiting_jobs
from scheduling.engine.actions.advice.gates import JobExamination, evaluate_gates
from scheduling.engine.actions.advice.trial import FeasibilityTrial
from scheduling.engine.actions.explain_waiting import explain_waiting_jobs
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import CycleResult, Instant, Job, JobOutcome, TaskWorkload
from scheduling.engine.placement.claim_refusals import explain_no_flavor, name_claim_reason
from scheduling.engine.session.config import EngineConfig, ExplainScope
from scheduling.engine.session.plugin_sets import ResolvedPlugins
from scheduling.engine.session.session import Session
from scheduling.engine.session.workload import find_workload_change, learning_policies
from scheduling.engine.state.delta import Delta, WorkloadPut
from scheduling.engine.state.snapshot import Snapshot

DEFAULT_CONFIG = EngineConfig()


def run_cycle(snapshot: Snapshot, config: EngineConfig, now: Instant) -> CycleResult:
    """Decide which jobs start now, and explain of every other job why it waits.

    The snapshot is changed under a statement and left exactly as it was; after the decisions are committed,
    the caller applies them with `Snapshot.apply`. `now` is in epoch seconds. Equal arguments give equal
    decisions, whatever the order in which the snapshot's parts were given. Explanations are computed for a
    bounded number of shapes in each cycle and kept with the snapshot.

    Raises:
        ConfigError: when the configuration, a queue or a flavor names what is not configured.
        DeadlineExceededError: when the configured deadline is over; the snapshot is left as it was.
    """
    session = start_session(snapshot, config, now)
    with snapshot.statement():
        timings = _run_actions(session)
    for job_id in session.naming_claims:
        session.outcomes[job_id] = name_claim_reason(session.outcomes[job_id])
    outcomes = tuple(map(session.outcomes.__getitem__, _sorted_job_ids(session)))
    session.counters["considered"] = len(outcomes)
    return CycleResult(
        decisions=tuple(session.decisions),
        outcomes=outcomes,
        counters={name: session.counters[name] for name in sorted(session.counters)},
        timings=timings,
    )


def examine_job(snapshot: Snapshot, config: EngineConfig, now: Instant, job_id: str) -> JobExamination | None:
    """Run a cycle, and evaluate for one pending job the gates behind the one that holds it up.

    The snapshot is left as `run_cycle` leaves it. None if the snapshot has no outcome for the job.

    Raises:
        ConfigError, DeadlineExceededError: as for `run_cycle`.
    """
    session = start_session(snapshot, config, now)
    with snapshot.statement():
        _run_actions(session)
        outcome = session.outcomes.get(job_id)
        if outcome is None:
            return None
        found = evaluate_gates(session, outcome)
    return replace(found, outcome=name_claim_reason(found.outcome))


def _run_actions(session: Session) -> dict[str, float]:
    """Run the configured actions and explain; return the seconds that each took."""
    config, timings = session.config, dict[str, float]()
    for action in session.tools.actions:
        session.check_deadline()
        _timed(config.stopwatch, timings, action.name, lambda run=action.run: run(session))  # type: ignore[misc]
    if config.explain is ExplainScope.ALL:
        _timed(config.stopwatch, timings, "explain", lambda: explain_waiting_jobs(session))
        if config.advise_for != "":
            _timed(config.stopwatch, timings, "advise", lambda: advise_waiting_jobs(session))
    return timings


def recount_workload(snapshot: Snapshot, config: EngineConfig) -> TaskWorkload | None:
    """Count the workload mix again if a policy learns from it and it is no longer that of the present jobs.

    The new mix is put into the snapshot and returned for its owner to store; None if the old one still holds.
    """
    if not learning_policies(snapshot, _tools(snapshot, config).rule):
        return None
    workload = find_workload_change(snapshot)
    if workload is not None:
        snapshot.apply_delta(Delta((WorkloadPut(workload),)))
    return workload


def start_session(snapshot: Snapshot, config: EngineConfig, now: Instant) -> Session:
    """Return a session over the snapshot, with the plug-ins that the configuration names.

    Raises:
        ConfigError: as for `run_cycle`.
    """
    return Session(snapshot, config, _tools(snapshot, config), now)


def _tools(snapshot: Snapshot, config: EngineConfig) -> ResolvedPlugins:
    """Return the resolved configuration, kept with the snapshot as most cycles have that of the last."""
    known = snapshot.job_caches.get(ResolvedPlugins)
    if isinstance(known, tuple) and known[0] is config:
        tools: ResolvedPlugins = known[1]
        return tools
    tools = resolve_config(config)
    snapshot.job_caches[ResolvedPlugins] = (config, tools)
    return tools


def _sorted_job_ids(session: Session) -> list[str]:
    """Return the sorted ids of the jobs with an outcome; nearly all of them had one in the last cycle."""
    memo, outcomes = session.snapshot.job_memo, session.outcomes
    last = memo.get("sorted_ids")
    known = dict.fromkeys(filter(outcomes.__contains__, last)) if isinstance(last, list) else {}
    # A list that is sorted except for its end is sorted quickly.
    ordered = memo["sorted_ids"] = sorted({**known, **outcomes})
    return ordered


def never_fits(snapshot: Snapshot, job: Job, config: EngineConfig = DEFAULT_CONFIG) -> JobOutcome | None:
    """Return the NEVER_FITS outcome of a job that no flavor of its queue could hold even if empty; None if
    one could.

    Broken or cordoned nodes count as usable, because they may come back. The check is a necessary condition
    role by role: a job that passes may still wait for room.

    Raises:
        ConfigError: as for `run_cycle`.
        KeyError: when the snapshot does not have the job's queue.
    """
    queue, rule = snapshot.queues[job.queue], resolve_config(config).rule
    outcome = explain_no_flavor(snapshot, rule, queue, job)
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
