"""Which jobs are told in a cycle what would help: trials cost time, so only so many are made."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.actions.advice.advise import advise_outcome
from scheduling.engine.actions.advice.trial import StartTrial
from scheduling.engine.session.equivalence import HELP_TO_TRY, AnswerKey, SharedAnswers
from scheduling.engine.session.session import Session

# How many trials a cycle may make: one for so many turns, or as many as look at so many nodes together where
# that is more, within bounds. So they take a small part of the time of a cycle, or little time.
TURNS_PER_TRIAL = 20
MIN_NODES_TRIED, MAX_NODES_TRIED = 200, 8_000
MIN_TRIALS, MAX_TRIALS = 4, 512
# What is not used is saved for so many cycles. Half of it is kept for jobs that have no recommendations yet;
# with the rest those are tried again that were tried in an earlier state.
SAVED_CYCLES = 4


def count_allowed_trials(session: Session) -> int:
    """How many trials a cycle may make on average."""
    nodes, turns = max(1, len(session.snapshot.fleet)), session.counters["tried"]
    most = max(MIN_TRIALS, min(MAX_TRIALS, MAX_NODES_TRIED // nodes))
    return max(1, min(most, max(MIN_NODES_TRIED // nodes, turns // TURNS_PER_TRIAL)))


def advise_waiting_jobs(session: Session) -> None:
    """Try the recommendations of jobs that wait, and tell what works to all that are alike."""
    session.snapshot.show(later=False)
    trial, state, kept = StartTrial(session), session.snapshot.version, session.snapshot.kept
    each = count_allowed_trials(session)
    known = kept.get(StartTrial)
    # What one job took beyond the bound is made up for in the cycles that follow.
    most = min(SAVED_CYCLES * each, known + each if isinstance(known, int) else SAVED_CYCLES * each)
    if session.config.advise_for is not None:
        most = MAX_TRIALS
    for kind, told in _new(session):
        if trial.trial_count >= most:
            break
        _try(session, trial, kind, told, state)
    for kind, told in _tried_before(session, state):
        if trial.trial_count >= most - SAVED_CYCLES * each // 2:
            break
        _try(session, trial, kind, told, state)
    if session.config.advise_for is None:
        kept[StartTrial] = most - trial.trial_count


def _new(session: Session) -> Iterator[tuple[AnswerKey, SharedAnswers]]:
    return ((kind, told) for kind, told in _asking(session) if told.tried_at is None)


def _tried_before(session: Session, state: int) -> Iterator[tuple[AnswerKey, SharedAnswers]]:
    """Those that were tried in another state, the longest ago first."""
    stale = [each for each in _asking(session) if each[1].tried_at not in (None, state)]
    yield from sorted(stale, key=lambda each: each[1].tried_at or 0)


def _asking(session: Session) -> list[tuple[AnswerKey, SharedAnswers]]:
    """The kinds that were told something with recommendations that have to be tried."""
    only, refusals = session.config.advise_for, session.answers
    found = []
    for kind, job_id in refusals.seen.items():
        told = refusals.get_answers(kind)
        meant = only is None or (
            only in session.snapshot.jobs and kind[1] == session.equivalence.class_of(session.get_job(only))
        )
        if (
            meant
            and job_id in session.snapshot.jobs
            and any(way.code in HELP_TO_TRY for way in told.computed.help)
        ):
            found.append((kind, told))
    return found


def _try(session: Session, trial: StartTrial, kind: AnswerKey, told: SharedAnswers, state: int) -> None:
    job_id = session.answers.seen[kind]
    queue, job = session.snapshot.queues[kind[0]], session.get_job(job_id)
    outcome = advise_outcome(trial, queue, job, told.computed)
    if outcome.help == told.reported.help:
        told.tried_at = state
        return
    fresh = SharedAnswers(told.computed, outcome, state)
    session.answers.replace_answers(kind, fresh)
    for name, answer in told.items():
        if session.outcomes.get(name) is answer:
            session.outcomes[name] = fresh[name]
