"""Which jobs are told in a cycle what would help: trials cost time, so only so many are made."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.actions.advice.advise import advised
from scheduling.engine.actions.advice.trial import Trial
from scheduling.engine.session.equivalence import TRIED, Kind, Told
from scheduling.engine.session.session import Session

# How many trials a cycle may make: one for so many turns, or as many as look at so many nodes together where
# that is more, within bounds. So they take a small part of the time of a cycle, or little time.
TURNS_PER_TRIAL = 20
NODES_ALWAYS, NODES_TRIED = 600, 8_000
LEAST, MOST = 4, 512
# What is not used is saved for so many cycles. Half of it is kept for jobs that have no recommendations yet;
# with the rest those are tried again that were tried in an earlier state.
SAVED = 4


def trials(session: Session) -> int:
    """How many trials a cycle may make on average."""
    nodes, turns = max(1, len(session.snapshot.fleet)), session.counters["tried"]
    most = max(LEAST, min(MOST, NODES_TRIED // nodes))
    return max(1, min(most, max(NODES_ALWAYS // nodes, turns // TURNS_PER_TRIAL)))


def advise(session: Session) -> None:
    """Try the recommendations of jobs that wait, and tell what works to all that are alike."""
    session.snapshot.show(later=False)
    trial, state, kept = Trial(session), session.snapshot.version, session.snapshot.kept
    each = trials(session)
    known = kept.get(Trial)
    # What one job took beyond the bound is made up for in the cycles that follow.
    most = min(SAVED * each, known + each if isinstance(known, int) else SAVED * each)
    if session.config.advise_for is not None:
        most = MOST
    for kind, told in _new(session):
        if trial.made >= most:
            break
        _try(session, trial, kind, told, state)
    for kind, told in _tried_before(session, state):
        if trial.made >= most - SAVED * each // 2:
            break
        _try(session, trial, kind, told, state)
    if session.config.advise_for is None:
        kept[Trial] = most - trial.made


def _new(session: Session) -> Iterator[tuple[Kind, Told]]:
    return ((kind, told) for kind, told in _asking(session) if told.tried_at is None)


def _tried_before(session: Session, state: int) -> Iterator[tuple[Kind, Told]]:
    """Those that were tried in another state, the longest ago first."""
    stale = [each for each in _asking(session) if each[1].tried_at not in (None, state)]
    yield from sorted(stale, key=lambda each: each[1].tried_at or 0)


def _asking(session: Session) -> list[tuple[Kind, Told]]:
    """The kinds that were told something with recommendations that have to be tried."""
    only, refusals = session.config.advise_for, session.refusals
    found = []
    for kind, job_id in refusals.seen.items():
        told = refusals.of(kind)
        meant = only is None or (
            only in session.snapshot.jobs and kind[1] == session.likes.class_of(session.job(only))
        )
        if meant and job_id in session.snapshot.jobs and any(way.code in TRIED for way in told.found.help):
            found.append((kind, told))
    return found


def _try(session: Session, trial: Trial, kind: Kind, told: Told, state: int) -> None:
    job_id = session.refusals.seen[kind]
    queue, job = session.snapshot.queues[kind[0]], session.job(job_id)
    outcome = advised(trial, queue, job, told.found)
    if outcome.help == told.first.help:
        told.tried_at = state
        return
    fresh = Told(told.found, outcome, state)
    session.refusals.tell(kind, fresh)
    for name, answer in told.items():
        if session.outcomes.get(name) is answer:
            session.outcomes[name] = fresh[name]
