"""The numbers of a workspace's overview for one user: the user's own jobs, and all notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Q

from scheduling.models import PENDING_STATES, RUNNING_STATES, TERMINAL_STATES, Job, JobKind, JobState
from scheduling.selectors.jobs.deleted import NOT_DELETED
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

_PRESENT: Final = tuple(state for state in JobState if state not in TERMINAL_STATES)


@dataclass(frozen=True, slots=True)
class OwnWork:
    """The numbers of the viewer's jobs that are pending, run, or failed lately, and of notebooks of the
    workspace that run, and that have not ended.
    """

    waiting: int
    running: int
    failed: int
    notebooks_running: int
    notebooks: int


def own_work(*, viewer: User, workspace: Tenant, failed_since: datetime) -> OwnWork:
    """Count the viewer's jobs of a workspace, and its notebooks.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    waiting, running = Q(state__in=PENDING_STATES), Q(state__in=RUNNING_STATES)
    failed = Q(state=JobState.FAILED, finished_at__gte=failed_since) & NOT_DELETED
    mine, notebook, present = Q(submitted_by=viewer), Q(kind=JobKind.NOTEBOOK), Q(state__in=_PRESENT)
    # Most jobs have ended; their rows are not read.
    jobs = Job.unscoped.filter(present | Q(state=JobState.FAILED, finished_at__gte=failed_since))
    counts = jobs.filter(workspace=workspace).aggregate(
        waiting=Count("pk", filter=mine & waiting),
        running=Count("pk", filter=mine & running),
        failed=Count("pk", filter=mine & failed),
        notebooks_running=Count("pk", filter=notebook & running),
        notebooks=Count("pk", filter=notebook & present),
    )
    return OwnWork(**counts)
