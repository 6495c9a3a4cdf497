"""The job's state machine: `Job.state` is changed here and nowhere else.

One compare-and-set on `job.version`, one event, nothing else. Whoever loses the race learns it as
`StaleJob` and looks again; no lock is held while deciding.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.utils.translation import gettext as _

from foundation.errors import Conflict
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
    """The job was changed by somebody else since it was read."""

    code = "STALE_JOB"


class IllegalTransition(Conflict):
    """The state machine has no such arrow."""

    code = "ILLEGAL_TRANSITION"


def note(
    job: Job, code: str, *, now: datetime, actor: str = "", numbers: Mapping[str, Any] | None = None
) -> JobEvent:
    """Add a line to the job's story."""
    return JobEvent.unscoped.create(job=job, at=now, code=code, actor=actor, numbers=dict(numbers or {}))


def transition(
    job: Job,
    to: JobState,
    *,
    code: str,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Move `job` to the state `to`, setting `fields` in the same statement, and note the event `code`.

    Must run inside the transaction of everything the move implies.
    Raises: IllegalTransition; StaleJob when `job.version` is no longer current.
    """
    if to not in ALLOWED[job.state]:
        states = {"state": job.state, "to": to.value}
        raise IllegalTransition(_("A job that is %(state)s cannot become %(to)s.") % states)
    changed = Job.unscoped.filter(pk=job.pk, version=job.version, state=job.state).update(
        state=to, version=F("version") + 1, **fields
    )
    if not changed:
        raise StaleJob(_("The job %(name)s was changed meanwhile.") % {"name": job.name})
    job.state, job.version = to, job.version + 1
    for name, value in fields.items():
        setattr(job, name, value)
    note(job, code, now=now, actor=actor, numbers=numbers)


def advance(
    job: Job,
    *,
    code: str,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Change `fields` of `job` but not its state, and note it: whoever read it before has to look again.

    Raises: StaleJob when `job.version` is no longer current.
    """
    if not Job.unscoped.filter(pk=job.pk, version=job.version, state=job.state).update(
        version=F("version") + 1, **fields
    ):
        raise StaleJob(_("The job %(name)s was changed meanwhile.") % {"name": job.name})
    job.version += 1
    for name, value in fields.items():
        setattr(job, name, value)
    note(job, code, now=now, actor=actor, numbers=numbers)


def admit(job: Job, *, now: datetime) -> bool:
    """Admit `job` if it is still as the snapshot read it; returns whether it was.

    The one move that does not raise and notes no event: a cycle admits many jobs at once, drops those
    that have moved on, and writes the events of the others together.
    """
    return bool(
        Job.unscoped.filter(pk=job.pk, version=job.version, state=JobState.QUEUED).update(
            state=JobState.ADMITTED,
            version=F("version") + 1,
            admitted_at=now,
            attempt_number=F("attempt_number") + 1,
            reason="",
            reason_numbers={},
            reason_help=[],
            reason_at=now,
        )
    )
