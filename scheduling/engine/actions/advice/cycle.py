"""Which jobs are told in a cycle what would help: trials cost time, so only so many are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduling.engine.actions.advice.advise import advised
from scheduling.engine.actions.advice.trial import Trial
from scheduling.engine.actions.equivalence import TRIED, Kind, Told

if TYPE_CHECKING:
    from scheduling.engine.session import Session

# How many trials a cycle makes for kinds of jobs that have no recommendations yet: as many as look at so many
# nodes together, within bounds. A quarter of that is for those that were tried in an earlier state.
NODES_TRIED = 8_000
LEAST, MOST = 4, 512


def trials(session: Session) -> int:
    """After how many trials no further kind of job gets recommendations in a cycle."""
    return max(LEAST, min(MOST, NODES_TRIED // max(1, len(session.snapshot.fleet))))


def advise(session: Session) -> None:
    """Try the recommendations of jobs that wait, and tell what works to all that are alike."""
    session.snapshot.show(later=False)
    trial, state, most = Trial(session), session.snapshot.version, trials(session)
    for kind, told in _new(session):
        if trial.made >= most:
            break
        _try(session, trial, kind, told, state)
    most = trial.made + most // 4
    for kind, told in _tried_before(session, state):
        if trial.made >= most:
            break
        _try(session, trial, kind, told, state)


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
            only in session.snapshot.jobs and kind[1] == session.likes.of(session.job(only))
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
