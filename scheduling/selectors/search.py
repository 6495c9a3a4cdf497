"""Finding jobs by name across workspaces."""

from __future__ import annotations

from django.db.models import Q

from foundation.actor import Actor
from scheduling.models import Job
from tenants import permissions
from tenants.models import Member
from tenants.permissions import ROLE_PERMISSIONS, Permission


def job_find(*, viewer: Actor, text: str, limit: int) -> list[Job]:
    """The newest jobs whose name holds `text`, in every workspace whose jobs the viewer may see."""
    jobs = Job.unscoped.filter(name__icontains=text).select_related("workspace", "submitted_by")
    if not permissions.may(viewer, Permission.JOB_VIEW):
        jobs = jobs.filter(_in_sight(viewer))
    return list(jobs.order_by("-submitted_at", "-pk")[:limit])


def _in_sight(viewer: Actor) -> Q:
    roles = [role for role, points in ROLE_PERMISSIONS.items() if Permission.JOB_VIEW in points]
    paths = Member.unscoped.filter(user=viewer.pk, tenant__isnull=False, role__in=roles)
    below = Q(pk__in=[])
    for path in paths.values_list("tenant__path", flat=True):
        below |= Q(workspace__path__startswith=path)
    return below
