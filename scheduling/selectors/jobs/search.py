"""Finds jobs by name across workspaces."""

from __future__ import annotations

from foundation.core.actor import Actor
from scheduling.models import Job
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.name_search import having_part
from tenants.access import permissions
from tenants.access.permissions import Permission


def job_find(*, viewer: Actor, text: str, limit: int) -> list[Job]:
    """Return the newest jobs whose name contains `text`, in all workspaces whose jobs the viewer may see."""
    jobs = Job.unscoped.filter(NOT_DELETED, having_part(text, None))
    jobs = jobs.select_related("workspace", "submitted_by")
    if not permissions.has_permission(viewer, Permission.JOB_VIEW):
        jobs = jobs.filter(workspace__in=permissions.tenants_with(viewer, Permission.JOB_VIEW))
    return list(jobs.order_by("-submitted_at", "-pk")[:limit])
