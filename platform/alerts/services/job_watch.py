"""Starts and ends a user's watch of a job: messages when it starts, and when it finishes or fails."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.utils.translation import gettext as _

from alerts.models import JobWatch
from foundation.core.errors import Conflict
from scheduling.models import Job, JobState
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

WATCHES_MAX: Final = 1_000
"""The most jobs that one user may watch at a time."""


@transaction.atomic
def watch_job(*, acting_user: User, job: Job) -> None:
    """Notify a user when a job starts and ends, or only of the end if the job already runs.

    Raises: NotFound, PermissionDenied; Conflict for a job that has ended or for too many jobs.
    """
    permissions.require_permission(acting_user, Permission.JOB_VIEW, job.workspace)
    if job.is_terminal:
        raise Conflict(_("The job has ended."), code="JOB_ENDED")
    own = JobWatch.unscoped.filter(user=acting_user)
    if own.filter(job=job).exists():
        return
    if own.count() >= WATCHES_MAX:
        message = _("You already watch %(count)d jobs.") % {"count": WATCHES_MAX}
        raise Conflict(message, code="TOO_MANY_WATCHES")
    notified = job.state == JobState.RUNNING
    JobWatch.unscoped.get_or_create(user=acting_user, job=job, defaults={"start_notified": notified})


@transaction.atomic
def unwatch_job(*, acting_user: User, job: Job) -> None:
    """Send no further messages about a job. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(acting_user, Permission.JOB_VIEW, job.workspace)
    JobWatch.unscoped.filter(user=acting_user, job=job).delete()
