"""This module chooses the jobs whose recommendations are tried in a cycle; a trial costs time, so their
number is bounded."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.actions.advice.advise import TEMPORARY, advise_outcome, suggest_more_models
from scheduling.engine.actions.advice.trial import StartTrial
from scheduling.engine.session.equivalence import HELP_TO_TRY, ClassOutcomes, OutcomeKey
from scheduling.engine.session.session import Session

# The number of trials of a cycle: one for this many evaluations, or as many as examine this many nodes
# together, whichever is more, within bounds. Trials thus take a small part of a cycle, or little time.
TURNS_PER_TRIAL = 20
MIN_NODES_TRIED, MAX_NODES_TRIED = 200, 8_000
MIN_TRIALS, MAX_TRIALS = 4, 512
# Unused trials are saved for this many cycles. Half of them are kept for jobs without recommendations; with
# the rest, outcomes are tried again that were tried in an earlier state.
SAVED_CYCLES = 4


def count_allowed_trials(session: Session) -> int:
    """Return how many trials a cycle may make on average."""
    nodes, turns = max(1, len(session.snapshot.fleet)), session.counters["tried"]
    most = max(MIN_TRIALS, min(MAX_TRIALS, MAX_NODES_TRIED // nodes))
    return max(1, min(most, max(MIN_NODES_TRIED // nodes, turns // TURNS_PER_TRIAL)))


def advise_waiting_jobs(session: Session) -> None:
    """Try the recommendations of pending jobs, and report those that work to all jobs of the class."""
    session.snapshot.select_view(future=False)
    trial, state, saved = StartTrial(session), session.snapshot.version, session.snapshot.job_caches
    each = count_allowed_trials(session)
    known = saved.get(StartTrial)
    # Trials beyond the bound are taken from the following cycles.
    most = min(SAVED_CYCLES * each, known + each if isinstance(known, int) else SAVED_CYCLES * each)
    if session.config.advise_for is not None:
        most = MAX_TRIALS
    for outcome_key, outcomes in _never_tried(session):
        if trial.trial_count >= most:
            break
        _try_help(session, trial, outcome_key, outcomes, state)
    for outcome_key, outcomes in _tried_before(session, state):
        if trial.trial_count >= most - SAVED_CYCLES * each // 2:
            break
        _try_help(session, trial, outcome_key, outcomes, state)
    if session.config.advise_for is None:
        saved[StartTrial] = most - trial.trial_count


def _never_tried(session: Session) -> Iterator[tuple[OutcomeKey, ClassOutcomes]]:
    return (
        (outcome_key, outcomes)
        for outcome_key, outcomes in _classes_to_advise(session)
        if outcomes.tried_at is None
    )


def _tried_before(session: Session, state: int) -> Iterator[tuple[OutcomeKey, ClassOutcomes]]:
    """Yield the classes that were tried in another state, the oldest trial first."""
    stale = [each for each in _classes_to_advise(session) if each[1].tried_at not in (None, state)]
    yield from sorted(stale, key=lambda each: each[1].tried_at or 0)


def _classes_to_advise(session: Session) -> list[tuple[OutcomeKey, ClassOutcomes]]:
    """Return the classes whose outcome has recommendations that must be tried."""
    only, refusals = session.config.advise_for, session.class_outcomes
    found = []
    for outcome_key, job_id in refusals.seen.items():
        outcomes = refusals.get_outcomes(outcome_key)
        selected = only is None or (
            only in session.snapshot.jobs
            and outcome_key[1] == session.equivalence.class_of(session.get_job(only))
        )
        if (
            selected
            and job_id in session.snapshot.jobs
            and (
                any(way.code in HELP_TO_TRY for way in outcomes.computed.help)
                or _has_more_models(session, outcome_key[0], job_id, outcomes)
                # Of the job that is asked about, smaller sizes are tried as well.
                or (only is not None and outcomes.computed.reason in TEMPORARY)
            )
        ):
            found.append((outcome_key, outcomes))
    return found


def _has_more_models(session: Session, queue: str, job_id: str, outcomes: ClassOutcomes) -> bool:
    snapshot = session.snapshot
    ways = suggest_more_models(snapshot, snapshot.queues[queue], session.get_job(job_id), outcomes.computed)
    return next(ways, None) is not None


def _try_help(
    session: Session, trial: StartTrial, outcome_key: OutcomeKey, outcomes: ClassOutcomes, state: int
) -> None:
    job_id = session.class_outcomes.seen[outcome_key]
    queue, job = session.snapshot.queues[outcome_key[0]], session.get_job(job_id)
    outcome = advise_outcome(trial, queue, job, outcomes.computed)
    if outcome.help == outcomes.reported.help:
        outcomes.tried_at = state
        return
    fresh = ClassOutcomes(outcomes.computed, outcome, state)
    session.class_outcomes.replace_outcomes(outcome_key, fresh)
    for name, outcome in outcomes.items():
        if session.outcomes.get(name) is outcome:
            session.outcomes[name] = fresh[name]
