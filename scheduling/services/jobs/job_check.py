"""Checks a job before its submission; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import Count, Sum
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core.errors import FieldError, Invalid, Refused
from foundation.core.reasons import Reason
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.models import Queue
from scheduling.job_file import TASKS_MAX, JobSpec
from scheduling.models import WAITING_STATES, Job, PriorityClass, PriorityGrant
from scheduling.policy import EffectivePolicy, combine_policies, find_violations
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.services.jobs import feasibility
from scheduling.services.jobs.job_rows import Rows, rows_of
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.services.tree import require_live

PENDING_MAX: Final = getattr(settings, "ALLOTMENT_PENDING_JOBS_MAX", 10_000)
"""The maximum number of waiting jobs of a workspace; further submissions are refused."""
PENDING_TASKS_MAX: Final = getattr(settings, "ALLOTMENT_PENDING_TASKS_MAX", 100_000)
"""The maximum number of tasks of all waiting jobs of a workspace."""
REQUEST_TASKS_MAX: Final = TASKS_MAX
"""The maximum number of tasks of the jobs of one request: each is a row, and all are in one transaction."""

# Counting tasks reads every waiting job; small jobs are limited well enough by the number of jobs.
_FEW_TASKS: Final = 10
MIN_RUN_MAX_S: Final = getattr(settings, "ALLOTMENT_MIN_RUN_MAX_S", 3600)
"""The longest guaranteed run time that a job gets, in seconds."""
_QUEUE: Final = PreparedQuery(
    lambda workspace, name: Queue.unscoped.filter(
        workspace=workspace, name=name, closed_at__isnull=True
    ).order_by()
)
_PRIORITY: Final = PreparedQuery(lambda name: PriorityClass.unscoped.filter(name=name).order_by())
_PENDING: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    # Counted by queue, because only the index on the queue contains the state.
    lambda workspace: (
        Job.unscoped.filter(queue__workspace=workspace, state__in=WAITING_STATES)
        .order_by()
        .values("queue__workspace")
        .annotate(waiting=Count("*"))
        .values_list("waiting")
    )
)


_PENDING_TASKS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda workspace: (
        Job.unscoped.filter(queue__workspace=workspace, state__in=WAITING_STATES)
        .order_by()
        .values("queue__workspace")
        .annotate(wanted=Sum("roles__replicas"))
        .values_list("wanted")
    )
)


class PolicyDenied(Refused):
    """The policy of the workspace, or of a folder above it, does not allow the job."""

    code = Reason.POLICY_DENIED


class TooManyPending(Refused):
    """The workspace already has the maximum number of waiting jobs."""

    code = "TOO_MANY_PENDING"


class TooManyTasks(Refused):
    """The waiting jobs of the workspace, or the jobs of one request, would have too many tasks."""

    code = "TOO_MANY_PENDING_TASKS"


@dataclass(frozen=True, slots=True)
class Submission:
    """A specification that has passed the checks for its workspace."""

    spec: JobSpec
    queue: Queue
    priority: PriorityClass
    min_run_s: int
    submitted_by: User

    def build_rows(self, now: datetime) -> Rows:
        """Return the rows of the job for a submission at `now`."""
        return rows_of(
            self.spec,
            queue=self.queue,
            priority=self.priority,
            submitted_by=self.submitted_by,
            min_run_s=self.min_run_s,
            now=now,
        )


class Checks:
    """The checks for jobs of one workspace, whose data is read once for many jobs.

    `policy` is that of the workspace, if the caller has just read it.
    Raises: PermissionDenied, NotFound; Conflict for an archived workspace.
    """

    def __init__(self, acting_user: User, workspace: Tenant, policy: EffectivePolicy | None = None) -> None:
        permissions.require_permission(acting_user, Permission.JOB_SUBMIT, workspace)
        require_live(workspace)
        self._user, self._workspace = acting_user, workspace
        self.policy = policy or combine_policies(path_policies(workspace))
        self._queues: dict[str, Queue] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._room: int | None = None
        self._waiting_tasks: int | None = None
        self._fitting: set[str] = set()

    def check(self, spec: JobSpec, *, ahead: int = 0, tasks_ahead: int = 0) -> Submission:
        """Check one job; `ahead` jobs of the same request, with `tasks_ahead` tasks, are written before it.

        Raises: Invalid for an unknown queue or class; Refused for a class that is not granted;
        PolicyDenied with every violation; TooManyPending, TooManyTasks; NeverFits.
        """
        queue = self._queues.get(spec.queue) or _queue(self._workspace, spec.queue)
        name = spec.priority_class
        priority = self._priorities.get(name) or allowed_priority(self._workspace, name)
        self._queues[spec.queue], self._priorities[name] = queue, priority
        _check_policy(spec, self.policy)
        self._check_pending(ahead)
        self._check_tasks(spec.task_count, tasks_ahead)
        self._check_fit(spec, queue)
        return Submission(spec, queue, priority, _protection(spec, self.policy), self._user)

    def _check_fit(self, spec: JobSpec, queue: Queue) -> None:
        # Jobs of a sweep differ in image and command only, and are checked once.
        asked = [replace(role, image="", command=()) for role in spec.roles]
        shape = repr((queue.pk, asked, spec.min_available, spec.preemptible, spec.placement))
        if shape not in self._fitting:
            feasibility.check(spec, queue)
            self._fitting.add(shape)

    def _check_pending(self, ahead: int) -> None:
        if self._room is None:
            self._room = _room(self._workspace)
        if ahead >= self._room:
            message = _("Pending job limit reached (%(limit)s).")
            raise TooManyPending(message % {"limit": PENDING_MAX}, numbers={"limit": PENDING_MAX})

    def _check_tasks(self, asked: int, ahead: int) -> None:
        if ahead + asked > REQUEST_TASKS_MAX:
            numbers = {"limit": REQUEST_TASKS_MAX, "ahead": ahead, "asked": asked}
            message = _(
                "Maximum: %(limit)s tasks per request. Earlier jobs have %(ahead)s; this job has %(asked)s."
            )
            raise TooManyTasks(message % numbers, numbers=numbers)
        if asked <= _FEW_TASKS:
            return
        if self._waiting_tasks is None:
            counted = _PENDING_TASKS.fetch_first(self._workspace.pk)
            self._waiting_tasks = int(counted[0] or 0) if counted else 0
        waiting = self._waiting_tasks + ahead
        if waiting + asked > PENDING_TASKS_MAX:
            numbers = {"limit": PENDING_TASKS_MAX, "waiting": waiting, "asked": asked}
            message = _(
                "Maximum: %(limit)s pending tasks per workspace. Pending: %(waiting)s; this job "
                "adds %(asked)s."
            )
            raise TooManyTasks(message % numbers, numbers=numbers)


@row_scope.read_transaction()
def job_check(
    *, acting_user: User, workspace: Tenant, spec: JobSpec, policy: EffectivePolicy | None = None
) -> Submission:
    """Run all checks of a submission without writing.

    Raises: as `Checks` and its `check`.
    """
    return Checks(acting_user, workspace, policy).check(spec)


def _queue(workspace: Tenant, name: str) -> Queue:
    queue = _QUEUE.fetch_first(workspace.pk, name)
    if queue is None:
        message = _("Queue %(name)s not found in the workspace.") % {"name": name}
        raise Invalid(message, code="QUEUE_UNKNOWN", errors=[FieldError("queue", "UNKNOWN", message)])
    return queue


def allowed_priority(workspace: Tenant, name: str) -> PriorityClass:
    """Return the priority class of that name, if the workspace may use it.

    Raises: Invalid for an unknown class; Refused for one that is retired or not granted.
    """
    found = _PRIORITY.fetch_first(name)
    if found is None:
        message = _("Priority class %(name)s not found.") % {"name": name}
        errors = [FieldError("priority_class", "UNKNOWN", message)]
        raise Invalid(message, code="PRIORITY_CLASS_UNKNOWN", errors=errors)
    if found.retired_at is not None:
        message = _("Priority class %(name)s is disabled.") % {"name": name}
        errors = [FieldError("priority_class", "RETIRED", message)]
        raise Refused(message, code="PRIORITY_CLASS_RETIRED", errors=errors)
    if found.value > 0 and not _has_grant(workspace, found):
        message = _("The workspace has no grant for priority class %(name)s.") % {"name": name}
        errors = [FieldError("priority_class", "NOT_GRANTED", message)]
        raise Refused(message, code="PRIORITY_NOT_GRANTED", errors=errors)
    return found


def _has_grant(workspace: Tenant, priority: PriorityClass) -> bool:
    above = workspace.ancestor_ids()
    return PriorityGrant.unscoped.filter(priority_class=priority, tenant_id__in=above).exists()


def _check_policy(spec: JobSpec, policy: EffectivePolicy) -> None:
    breaches = find_violations(spec, policy)
    if breaches:
        message = ngettext(
            "Denied by policy: %(count)s violation.",
            "Denied by policy: %(count)s violations.",
            len(breaches),
        )
        raise PolicyDenied(message % {"count": len(breaches)}, errors=breaches)


def _protection(spec: JobSpec, policy: EffectivePolicy) -> int:
    limit = policy.maximum.get("min_run_s")
    return min(spec.min_run_s, MIN_RUN_MAX_S, *([limit.amount] if limit else []))


def _room(workspace: Tenant) -> int:
    """Return how many more waiting jobs the workspace may have."""
    counted = _PENDING.fetch_first(workspace.pk)
    return PENDING_MAX - (counted[0] if counted else 0)
