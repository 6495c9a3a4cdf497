"""The state machine of jobs: `Job.state` is changed only here.

Each change is a compare-and-set on `job.version` and one event. If another process changed the job first,
`StaleJob` is raised and the caller reads the job again, so that no lock is needed while it decides. A caller
that has locked many jobs changes them together; the version of each is still compared.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.utils.translation import gettext as _

from foundation.core.errors import Conflict
from foundation.sql.bulk import Guard, insert_rows, update_rows
from scheduling.lifecycle.journal import JournalStep, log_jobs
from scheduling.models import Job, JobEvent, JobState

_S = JobState
ALLOWED: Final[dict[str, frozenset[JobState]]] = {
    _S.SUBMITTED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.QUEUED: frozenset({_S.ADMITTED, _S.SUSPENDED, _S.CANCELLED, _S.FAILED}),
    _S.SUSPENDED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.ADMITTED: frozenset({_S.STARTING, _S.RUNNING, _S.SUCCEEDED, _S.EVICTING, _S.STOPPING}),
    _S.STARTING: frozenset({_S.RUNNING, _S.SUCCEEDED, _S.EVICTING, _S.STOPPING}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.EVICTING, _S.STOPPING}),
    _S.EVICTING: frozenset({_S.QUEUED, _S.SUSPENDED, _S.FAILED, _S.STOPPING}),
    _S.STOPPING: frozenset({_S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}


class StaleJob(Conflict):
    """The job was changed by another process since it was read."""

    code = "STALE_JOB"


class IllegalTransition(Conflict):
    """The state machine has no such transition."""

    code = "ILLEGAL_TRANSITION"


def add_event(
    job: Job, code: str, *, now: datetime, actor: str = "", numbers: Mapping[str, Any] | None = None
) -> JobEvent:
    """Add an event to the job's timeline."""
    log_jobs([JournalStep(job.pk, code, actor, numbers or {})])
    return JobEvent.unscoped.create(job=job, at=now, code=code, actor=actor, numbers=dict(numbers or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMove:
    """A change of one job to the state `to`: the code and numbers of its event, and other fields to set."""

    job: Job
    to: JobState
    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


def change_state(
    job: Job,
    to: JobState,
    *,
    code: str,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Change `job` to the state `to`, set `fields` in the same statement, and add the event `code`.

    It must run in the same transaction as all other changes that belong to the transition.
    Raises: IllegalTransition; StaleJob when `job.version` is no longer current.
    """
    move = StateMove(job=job, to=to, code=code, numbers=numbers or {}, fields=fields)
    transition_all([move], now=now, actor=actor)


def transition_all(moves: Sequence[StateMove], *, now: datetime, actor: str = "") -> None:
    """Change the states of many locked jobs, with one statement for all jobs that set the same fields.

    Raises: IllegalTransition; StaleJob when one job is no longer current: the caller must then roll back.
    """
    by_fields: defaultdict[tuple[str, ...], list[StateMove]] = defaultdict(list)
    moves = [_note_queueing(move, now) for move in moves]
    for move in moves:
        if move.to not in ALLOWED[move.job.state]:
            states = {"state": move.job.state, "to": move.to.value}
            raise IllegalTransition(_("Can't change state from %(state)s to %(to)s.") % states)
        by_fields[tuple(sorted(move.fields))].append(move)
    for names, group in by_fields.items():
        _write(names, group)
    events = []
    for move in moves:
        job = move.job
        job.state, job.version = move.to, job.version + 1
        for name, value in move.fields.items():
            setattr(job, name, value)
        events.append(JobEvent(job=job, at=now, code=move.code, actor=actor, numbers=dict(move.numbers)))
    insert_rows(events)
    log_jobs(JournalStep(move.job.pk, move.code, actor, move.numbers) for move in moves)


def _note_queueing(move: StateMove, now: datetime) -> StateMove:
    """Return the change with `queued_at` set if it queues the job: the job waits since then."""
    if move.to != JobState.QUEUED:
        return move
    return replace(move, fields={**move.fields, "queued_at": now})


def _write(names: Sequence[str], moves: Sequence[StateMove]) -> None:
    first = moves[0].fields
    shared = [name for name in names if all(move.fields[name] == first[name] for move in moves)]
    own = [name for name in names if name not in shared]
    unchanged = Guard(same=("version", "state"))
    written = update_rows(
        Job,
        ("state", "version", *own),
        [
            (m.job.pk, m.to, m.job.version + 1, *(m.fields[name] for name in own), m.job.version, m.job.state)
            for m in moves
        ],
        constants={name: first[name] for name in shared},
        guard=unchanged,
    )
    for move in moves:
        if move.job.pk not in written:
            raise StaleJob(_("Job %(name)s was changed at the same time.") % {"name": move.job.name})


def advance_job(
    job: Job,
    *,
    code: str,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Change `fields` of `job` but not its state, add an event, and increment the version.

    Raises: StaleJob when `job.version` is no longer current.
    """
    if not Job.unscoped.filter(pk=job.pk, version=job.version, state=job.state).update(
        version=F("version") + 1, **fields
    ):
        raise StaleJob(_("Job %(name)s was changed at the same time.") % {"name": job.name})
    job.version += 1
    for name, value in fields.items():
        setattr(job, name, value)
    add_event(job, code, now=now, actor=actor, numbers=numbers)


def admit_jobs(jobs: Iterable[Job], *, now: datetime) -> set[uuid.UUID]:
    """Admit the queued jobs whose version is still current; return their ids.

    Unlike other transitions it neither raises nor adds events: a commit admits many jobs at once and writes
    their events itself. The caller has locked the rows.
    """
    waiting = Guard(same=("version",), where={"state": JobState.QUEUED})
    return update_rows(
        Job,
        ("version", "attempt_number"),
        [(job.pk, job.version + 1, job.attempt_number + 1, job.version) for job in jobs],
        constants={
            "state": JobState.ADMITTED,
            "admitted_at": now,
            "reason": "",
            "reason_numbers": {},
            "reason_help": [],
            "reason_at": now,
        },
        guard=waiting,
    )
