"""Submits jobs, and carries out the actions of users on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock, faults
from foundation.core.errors import Conflict
from foundation.core.reasons import Reason
from foundation.messaging import outbox
from foundation.sql.bulk import insert_rows
from scheduling.job_file import JobSpec
from scheduling.lifecycle import job_lifecycle, transitions
from scheduling.lifecycle.journal import JournalStep, log_jobs
from scheduling.lifecycle.transitions import change_state
from scheduling.models import (
    RUNNING_STATES,
    TERMINAL_STATES,
    Job,
    JobEvent,
    JobState,
    PriorityClass,
)
from scheduling.policy import EffectivePolicy
from scheduling.services.jobs.acting import act_on, require_stop
from scheduling.services.jobs.job_check import allowed_priority, job_check
from scheduling.services.jobs.job_rows import create_rows
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

# Jobs submitted within this time are evaluated together; otherwise the first would take the cards that a job
# with higher priority, or a larger one, requests a moment later.
_TOGETHER_S: Final = 0.25


def job_submit(
    *,
    acting_user: User,
    workspace: Tenant,
    spec: JobSpec,
    now: datetime | None = None,
    policy: EffectivePolicy | None = None,
) -> Job:
    """Accept a job into its queue; the next cycle evaluates it. Its roles are prefetched.

    `policy`: as for `Checks`. Raises: as `job_check`; NameTaken.
    """
    checked = job_check(acting_user=acting_user, workspace=workspace, spec=spec, policy=policy)
    rows = checked.build_rows(now or clock.now())
    # The checks run outside of the transaction: on SQLite it takes the only write lock, and submissions would
    # wait for each other while the engine checks the inventory.
    with transaction.atomic():
        job = create_rows(rows)
        note_submissions(acting_user, [job])
        faults.fault_point("submit.before_commit")
    faults.fault_point("submit.after_commit")
    job.workspace = workspace
    return job


def note_submissions(acting_user: User, jobs: Sequence[Job]) -> None:
    """Add the events, audit records and the hint for a cycle of new jobs, in the transaction that wrote
    them."""
    name = acting_user.get_username()
    story = [JobEvent(job=job, at=job.submitted_at, code="submitted", actor=name) for job in jobs]
    insert_rows(story)
    log_jobs(JournalStep(job.pk, "submitted", name) for job in jobs)
    after = [(job, {"name": job.name, "queue": job.queue.name}) for job in jobs]
    audit_log.record_many(
        acting_user,
        "job.submit",
        entity="job",
        changes=[audit_log.FieldChange(job.pk, job.workspace_id, after=values) for job, values in after],
    )
    for cell_id in sorted({job.queue.cell_id for job in jobs}):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id, delay_s=_TOGETHER_S)


def job_cancel(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Cancel a job: a waiting job ends at once, any other when its last pod is gone.

    Raises: PermissionDenied, NotFound; Conflict when it has ended already; PreconditionFailed when it does
    not have the version `expected`.
    """
    require_stop(acting_user, job)
    act_on(job, expected, lambda: _cancel(acting_user, job))
    return job


def _cancel(user: User, job: Job) -> None:
    if job.state in TERMINAL_STATES:
        raise Conflict(_("The job has already finished."), code="JOB_ENDED")
    if job.state == JobState.STOPPING:
        return
    now = clock.now()
    if job.is_waiting:
        _leave_queue(job, JobState.CANCELLED, "cancelled", user, now, finished_at=now, end_reason="CANCELLED")
    else:
        job_lifecycle.begin_stopping(job=job, now=now, actor=user.get_username())
    _record(user, "job.cancel", job)


def job_suspend(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Suspend a job until a user resumes it; its quota and devices are released.

    Raises: PermissionDenied, NotFound; Conflict when it is suspended, terminating or ended.
    """
    require_stop(acting_user, job)
    act_on(job, expected, lambda: _suspend(acting_user, job))
    return job


def _suspend(user: User, job: Job) -> None:
    now, name = clock.now(), user.get_username()
    if job.state == JobState.QUEUED:
        reason = {
            "reason": Reason.SUSPENDED,
            "reason_numbers": {"user": name},
            "reason_help": [],
            "reason_at": now,
        }
        _leave_queue(job, JobState.SUSPENDED, "suspended", user, now, **reason)
    elif job.state in RUNNING_STATES:
        job_lifecycle.begin_eviction(job=job, rule="USER", then=JobState.SUSPENDED, now=now, actor=name)
    else:
        raise Conflict(_("Only pending or running jobs can be suspended."), code="NOT_SUSPENDABLE")
    _record(user, "job.suspend", job)


def job_resume(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Put a suspended job back into its queue, in the order of its submission time.

    Raises: PermissionDenied, NotFound; Conflict when it is not suspended.
    """
    require_stop(acting_user, job)
    act_on(job, expected, lambda: _resume(acting_user, job))
    return job


def _resume(user: User, job: Job) -> None:
    if job.state != JobState.SUSPENDED:
        raise Conflict(_("Only suspended jobs can be resumed."), code="NOT_SUSPENDED")
    now = clock.now()
    change_state(
        job,
        JobState.QUEUED,
        code="resumed",
        now=now,
        actor=user.get_username(),
        reason=Reason.PENDING_EVALUATION,
        reason_numbers={},
        reason_help=[],
        reason_at=now,
    )
    outbox.add_hint(outbox.Topic.CYCLE, job.queue.cell_id)
    _record(user, "job.resume", job)


def job_restart(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Terminate the pods of a running job and put it back into its queue; it then starts as a new attempt.

    It keeps its submission time. Raises: PermissionDenied, NotFound; Conflict when it does not run.
    """
    require_stop(acting_user, job)
    act_on(job, expected, lambda: _restart(acting_user, job))
    return job


def _restart(user: User, job: Job) -> None:
    if job.state not in RUNNING_STATES:
        message = _("Only running jobs can be restarted. Clone a finished job to run it again.")
        raise Conflict(message, code="NOT_RESTARTABLE")
    name = user.get_username()
    job_lifecycle.begin_eviction(job=job, rule="RESTART", then=JobState.QUEUED, now=clock.now(), actor=name)
    _record(user, "job.restart", job)


def job_priority(*, acting_user: User, job: Job, priority_class: str, expected: int | None = None) -> Job:
    """Give a waiting job another priority class; its position in the queue changes accordingly.

    Raises: PermissionDenied, NotFound; Invalid for an unknown class; Refused for one that is not granted;
    Conflict when the job is not waiting.
    """
    require_stop(acting_user, job)
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, job.workspace)
    priority = allowed_priority(job.workspace, priority_class)
    act_on(job, expected, lambda: _reprioritise(acting_user, job, priority))
    return job


def _reprioritise(user: User, job: Job, priority: PriorityClass) -> None:
    if not job.is_waiting:
        message = _("Only the priority of a pending job can be changed.")
        raise Conflict(message, code="NOT_WAITING")
    before = job.priority_class.name
    transitions.advance_job(
        job,
        code="priority",
        now=clock.now(),
        actor=user.get_username(),
        numbers={"from": before, "to": priority.name},
        priority_class=priority,
        priority=priority.value,
    )
    outbox.add_hint(outbox.Topic.CYCLE, job.queue.cell_id)
    _record(
        user,
        "job.priority",
        job,
        before={"priority_class": before},
        after={"priority_class": priority.name},
    )


def _leave_queue(job: Job, to: JobState, code: str, user: User, now: datetime, **fields: Any) -> None:
    cleared: dict[str, Any] = {"reason": "", "reason_numbers": {}, "reason_help": []}
    change_state(job, to, code=code, now=now, actor=user.get_username(), **(cleared | fields))
    # Its claim is released for other jobs, and the jobs behind it in the queue are evaluated.
    job_lifecycle.end_claims([job])
    outbox.add_hint(outbox.Topic.CYCLE, job.queue.cell_id)


def _record(
    user: User,
    action: str,
    job: Job,
    after: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
) -> None:
    audit_log.record_action(
        user,
        action,
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before=before,
        after=after or {"name": job.name},
    )
