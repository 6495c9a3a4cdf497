"""Submitting jobs, and what a user may do with them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation import audit, clock, faults, outbox, row_scope
from foundation.errors import Conflict, FieldError, Invalid, Refused
from foundation.kept import Kept
from foundation.versions import require_current
from quotas.models import Queue
from scheduling import transitions
from scheduling.models import (
    TERMINAL_STATES,
    WAITING_STATES,
    Job,
    JobEvent,
    JobState,
    PriorityClass,
    PriorityGrant,
)
from scheduling.policy import Effective, combine, violations
from scheduling.selectors.workspace_policy import path_policies
from scheduling.services import feasibility, lifecycle
from scheduling.services.job_rows import Rows, create_rows, rows_of
from scheduling.spec import JobSpec
from scheduling.transitions import StaleJob, transition
from tenants import permissions
from tenants.models import Tenant, User
from tenants.permissions import Permission
from tenants.services.tree import require_live

PENDING_MAX: Final = getattr(settings, "ALLOTMENT_PENDING_JOBS_MAX", 10_000)
"""How many jobs of one workspace may wait; beyond that a submission is refused."""
MIN_RUN_MAX_S: Final = getattr(settings, "ALLOTMENT_MIN_RUN_MAX_S", 3600)
"""The longest protection from preemption a job may ask for."""
_TRIES: Final = 3
_QUEUE: Final = Kept(
    lambda workspace, name: Queue.unscoped.filter(
        workspace=workspace, name=name, closed_at__isnull=True
    ).order_by()
)
_PRIORITY: Final = Kept(lambda name: PriorityClass.unscoped.filter(name=name).order_by())


class PolicyDenied(Refused):
    """The policy of the workspace, or of a folder above it, does not allow the job."""

    code = "POLICY_DENIED"


class TooManyPending(Refused):
    """The workspace has as many waiting jobs as it may."""

    code = "TOO_MANY_PENDING"


@dataclass(frozen=True, slots=True)
class Submission:
    """A specification that was checked against the workspace and may be written."""

    spec: JobSpec
    queue: Queue
    priority: PriorityClass
    min_run_s: int
    submitted_by: User

    def rows(self, now: datetime) -> Rows:
        """The rows to write when it is submitted at that moment."""
        return rows_of(
            self.spec,
            queue=self.queue,
            priority=self.priority,
            submitted_by=self.submitted_by,
            min_run_s=self.min_run_s,
            now=now,
        )


class Checks:
    """What jobs for one workspace are checked against, read once for as many as come together.

    `policy` is that of the workspace; it may be handed in where it has just been read.
    Raises: PermissionDenied, NotFound; Conflict for an archived workspace.
    """

    def __init__(self, acting_user: User, workspace: Tenant, policy: Effective | None = None) -> None:
        permissions.require(acting_user, Permission.JOB_SUBMIT, workspace)
        require_live(workspace)
        self._user, self._workspace = acting_user, workspace
        self.policy = policy or combine(path_policies(workspace))
        self._queues: dict[str, Queue] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._room: int | None = None
        self._fitting: set[str] = set()

    def check(self, spec: JobSpec, *, ahead: int = 0) -> Submission:
        """Check one job; `ahead` others of the workspace are to be written before it.

        Raises: Invalid for an unknown queue or class; Refused for a class that is not granted;
        PolicyDenied with every breach; TooManyPending; NeverFits.
        """
        queue = self._queues.get(spec.queue) or _queue(self._workspace, spec.queue)
        name = spec.priority_class
        priority = self._priorities.get(name) or _priority(self._workspace, name)
        self._queues[spec.queue], self._priorities[name] = queue, priority
        _check_policy(spec, self.policy)
        self._check_pending(ahead)
        self._check_fit(spec, queue)
        return Submission(spec, queue, priority, _protection(spec, self.policy), self._user)

    def _check_fit(self, spec: JobSpec, queue: Queue) -> None:
        # Jobs of a sweep differ in what they run, and ask for the same.
        asked = [replace(role, image="", command=()) for role in spec.roles]
        shape = repr((queue.pk, asked, spec.min_available, spec.preemptible, spec.placement))
        if shape not in self._fitting:
            feasibility.check(spec, queue)
            self._fitting.add(shape)

    def _check_pending(self, ahead: int) -> None:
        if ahead and self._room is None:
            self._room = _room(self._workspace)
        if _full(self._workspace) if self._room is None else ahead >= self._room:
            message = _("The workspace has %(limit)s waiting jobs, and may not have more.")
            raise TooManyPending(message % {"limit": PENDING_MAX}, numbers={"limit": PENDING_MAX})


@row_scope.together()
def job_check(
    *, acting_user: User, workspace: Tenant, spec: JobSpec, policy: Effective | None = None
) -> Submission:
    """Check everything a submission would check, and write nothing.

    Raises: as `Checks` and its `check`.
    """
    return Checks(acting_user, workspace, policy).check(spec)


def job_submit(
    *,
    acting_user: User,
    workspace: Tenant,
    spec: JobSpec,
    now: datetime | None = None,
    policy: Effective | None = None,
) -> Job:
    """Accept a job into its queue; the engine looks at it in the next cycle. Its roles are at hand.

    `policy`: as for `Checks`. Raises: as `job_check`; NameTaken.
    """
    checked = job_check(acting_user=acting_user, workspace=workspace, spec=spec, policy=policy)
    rows = checked.rows(now or clock.now())
    # The checks read outside the transaction: embedded, it takes the one write lock, and holding that
    # while the engine looks at the inventory would make submissions wait for each other.
    with transaction.atomic():
        job = create_rows(rows)
        note_submissions(acting_user, [job])
        faults.point("submit.before_commit")
    faults.point("submit.after_commit")
    job.workspace = workspace
    return job


def note_submissions(acting_user: User, jobs: Sequence[Job]) -> None:
    """Tell the story, the audit and the engine of new jobs, within the transaction that wrote them."""
    name = acting_user.get_username()
    story = [JobEvent(job=job, at=job.submitted_at, code="submitted", actor=name) for job in jobs]
    JobEvent.unscoped.bulk_create(story)
    after = [(job, {"name": job.name, "queue": job.queue.name}) for job in jobs]
    audit.record_many(
        acting_user,
        "job.submit",
        entity="job",
        changes=[audit.Change(job.pk, job.workspace_id, after=values) for job, values in after],
    )
    for cell_id in sorted({job.queue.cell_id for job in jobs}):
        outbox.hint(outbox.Topic.CYCLE, cell_id)


def job_cancel(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """End a job: at once while it waits, and when its last pod is gone if it holds something.

    Raises: PermissionDenied, NotFound; Conflict when it has ended already; PreconditionFailed when it is
    not at the version `expected`.
    """
    _require_stop(acting_user, job)
    return _change(job, expected, lambda: _cancel(acting_user, job))


def _cancel(user: User, job: Job) -> None:
    if job.state in TERMINAL_STATES:
        raise Conflict(_("The job has ended already."), code="JOB_ENDED")
    if job.state == JobState.STOPPING:
        return
    now = clock.now()
    if job.is_waiting:
        _leave_queue(job, JobState.CANCELLED, "cancelled", user, now, finished_at=now, end_reason="CANCELLED")
    else:
        lifecycle.begin_stopping(job=job, now=now, actor=user.get_username())
    _record(user, "job.cancel", job)


def job_suspend(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Take a job out of the race until someone resumes it; what it holds is given back.

    Raises: PermissionDenied, NotFound; Conflict when it is suspended, leaving or ended.
    """
    _require_stop(acting_user, job)
    return _change(job, expected, lambda: _suspend(acting_user, job))


def _suspend(user: User, job: Job) -> None:
    now, name = clock.now(), user.get_username()
    if job.state == JobState.QUEUED:
        reason = {
            "reason": "SUSPENDED",
            "reason_numbers": {"user": name},
            "reason_help": [],
            "reason_at": now,
        }
        _leave_queue(job, JobState.SUSPENDED, "suspended", user, now, **reason)
    elif job.state in (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING):
        lifecycle.begin_eviction(job=job, rule="USER", then=JobState.SUSPENDED, now=now, actor=name)
    else:
        raise Conflict(_("Only a queued or running job can be suspended."), code="NOT_SUSPENDABLE")
    _record(user, "job.suspend", job)


def job_resume(*, acting_user: User, job: Job, expected: int | None = None) -> Job:
    """Put a suspended job back into its queue, at the place its first submission gives it.

    Raises: PermissionDenied, NotFound; Conflict when it is not suspended.
    """
    _require_stop(acting_user, job)
    return _change(job, expected, lambda: _resume(acting_user, job))


def _resume(user: User, job: Job) -> None:
    if job.state != JobState.SUSPENDED:
        raise Conflict(_("Only a suspended job can be resumed."), code="NOT_SUSPENDED")
    now = clock.now()
    transition(
        job,
        JobState.QUEUED,
        code="resumed",
        now=now,
        actor=user.get_username(),
        reason="PENDING_EVALUATION",
        reason_numbers={},
        reason_help=[],
        reason_at=now,
    )
    outbox.hint(outbox.Topic.CYCLE, job.queue.cell_id)
    _record(user, "job.resume", job)


def job_priority(*, acting_user: User, job: Job, priority_class: str, expected: int | None = None) -> Job:
    """Give a waiting job another priority class; its place in the queue follows.

    Raises: PermissionDenied, NotFound; Invalid for an unknown class; Refused for one that is not granted;
    Conflict when the job does not wait.
    """
    _require_stop(acting_user, job)
    permissions.require(acting_user, Permission.JOB_SUBMIT, job.workspace)
    priority = _priority(job.workspace, priority_class)
    return _change(job, expected, lambda: _reprioritise(acting_user, job, priority))


def _reprioritise(user: User, job: Job, priority: PriorityClass) -> None:
    if not job.is_waiting:
        message = _("Only the priority of a waiting job can be changed.")
        raise Conflict(message, code="NOT_WAITING")
    before = job.priority_class.name
    transitions.advance(
        job,
        code="priority",
        now=clock.now(),
        actor=user.get_username(),
        numbers={"from": before, "to": priority.name},
        priority_class=priority,
        priority=priority.value,
    )
    outbox.hint(outbox.Topic.CYCLE, job.queue.cell_id)
    _record(
        user,
        "job.priority",
        job,
        before={"priority_class": before},
        after={"priority_class": priority.name},
    )


def _leave_queue(job: Job, to: JobState, code: str, user: User, now: datetime, **fields: Any) -> None:
    cleared: dict[str, Any] = {"reason": "", "reason_numbers": {}, "reason_help": []}
    transition(job, to, code=code, now=now, actor=user.get_username(), **(cleared | fields))
    # What was promised to it goes to others, and whoever stood behind it moves up.
    lifecycle.end_claims([job])
    outbox.hint(outbox.Topic.CYCLE, job.queue.cell_id)


def _change(job: Job, expected: int | None, act: Callable[[], None]) -> Job:
    """Run `act` in a transaction; when the engine was faster, look again and decide anew.

    Only the version `expected` is changed, where one is given: each act is a compare-and-set on the version
    that was checked here.
    """
    for _try in range(_TRIES - 1):
        require_current(job, expected)
        try:
            with transaction.atomic():
                act()
            return job
        except StaleJob:
            job.refresh_from_db()
    require_current(job, expected)
    with transaction.atomic():
        act()
    return job


def _require_stop(user: User, job: Job) -> None:
    own = job.submitted_by_id == user.pk and permissions.may(user, Permission.JOB_STOP_OWN, job.workspace)
    if not own:
        permissions.require(user, Permission.JOB_STOP_ANY, job.workspace)


def _queue(workspace: Tenant, name: str) -> Queue:
    queue = _QUEUE.first(workspace.pk, name)
    if queue is None:
        message = _("The workspace has no queue named %(name)s.") % {"name": name}
        raise Invalid(message, code="QUEUE_UNKNOWN", errors=[FieldError("queue", "UNKNOWN", message)])
    return queue


def _priority(workspace: Tenant, name: str) -> PriorityClass:
    found = _PRIORITY.first(name)
    if found is None:
        message = _("There is no priority class named %(name)s.") % {"name": name}
        errors = [FieldError("priority_class", "UNKNOWN", message)]
        raise Invalid(message, code="PRIORITY_CLASS_UNKNOWN", errors=errors)
    if found.retired_at is not None:
        message = _("The priority class %(name)s is retired.") % {"name": name}
        errors = [FieldError("priority_class", "RETIRED", message)]
        raise Refused(message, code="PRIORITY_CLASS_RETIRED", errors=errors)
    if found.value > 0 and not _granted(workspace, found):
        message = _("The workspace may not use the priority class %(name)s.") % {"name": name}
        errors = [FieldError("priority_class", "NOT_GRANTED", message)]
        raise Refused(message, code="PRIORITY_NOT_GRANTED", errors=errors)
    return found


def _granted(workspace: Tenant, priority: PriorityClass) -> bool:
    above = workspace.ancestor_ids()
    return PriorityGrant.unscoped.filter(priority_class=priority, tenant_id__in=above).exists()


def _check_policy(spec: JobSpec, policy: Effective) -> None:
    breaches = violations(spec, policy)
    if breaches:
        message = ngettext(
            "The policy of the workspace does not allow this job, in %(count)s respect.",
            "The policy of the workspace does not allow this job, in %(count)s respects.",
            len(breaches),
        )
        raise PolicyDenied(message % {"count": len(breaches)}, errors=breaches)


def _protection(spec: JobSpec, policy: Effective) -> int:
    limit = policy.maximum.get("min_run_s")
    return min(spec.min_run_s, MIN_RUN_MAX_S, *([limit.amount] if limit else []))


@cache
def _nth_pending(number: int) -> Kept[Any]:
    """So many jobs of a workspace wait, in no order, when this finds one."""
    # Counted through the queues: their index knows the state, the workspace's does not.
    return Kept(
        lambda workspace: (
            Job.unscoped.filter(queue__workspace=workspace, state__in=WAITING_STATES)
            .order_by()
            .values_list("pk")[number - 1 : number]
        )
    )


def _full(workspace: Tenant) -> bool:
    """Whether as many jobs wait as may."""
    return _nth_pending(PENDING_MAX).first(workspace.pk) is not None


def _room(workspace: Tenant) -> int:
    """How many more jobs may wait; costs a look at each that does."""
    waiting = Job.unscoped.filter(queue__workspace=workspace, state__in=WAITING_STATES).order_by()
    return PENDING_MAX - waiting[:PENDING_MAX].count()


def _record(
    user: User,
    action: str,
    job: Job,
    after: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
) -> None:
    audit.record(
        user,
        action,
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before=before,
        after=after or {"name": job.name},
    )
