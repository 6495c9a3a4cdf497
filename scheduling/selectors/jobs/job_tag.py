"""Finds jobs by their tags, and the tags that a workspace uses."""

from __future__ import annotations

from typing import Final

from django.db.models import Count, Exists, OuterRef, Q

from foundation.core.actor import Actor
from foundation.web.listing import ColumnCondition
from scheduling.models import Job, JobTag
from scheduling.selectors.jobs.deleted import NOT_DELETED
from scheduling.selectors.jobs.job_sight import jobs_in_sight
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_FEW: Final = 200
_LATELY: Final = 500
"""The number of newest jobs whose tags are read."""
_MOST: Final = 100


def jobs_tagged(condition: ColumnCondition, workspace: Tenant | None) -> Q:
    """Return the condition for jobs with a tag that meets the condition; by their keys if they are few, so
    that not all jobs of the workspace are searched for a rare tag."""
    meeting, without = condition.as_entry_query("name")
    rows = JobTag.unscoped.filter(meeting).order_by()
    if workspace is not None:
        rows = rows.filter(workspace=workspace)
    few = list(rows.values_list("job_id", flat=True)[:_FEW])
    found = Q(pk__in=few) if len(few) < _FEW else Q(Exists(rows.filter(job=OuterRef("pk"))))
    return ~found if without else found


def job_tags_lately(*, viewer: Actor, workspace: Tenant | None) -> list[str]:
    """Return the tags of the newest jobs of a workspace, or of all visible jobs, the most used first; none if
    the viewer may not see the jobs."""
    newest = Job.unscoped.filter(NOT_DELETED)
    if workspace is None:
        newest = newest.filter(jobs_in_sight(viewer))
    elif permissions.has_permission(viewer, Permission.JOB_VIEW, workspace):
        newest = newest.filter(workspace=workspace)
    else:
        return []
    keys = newest.order_by("-submitted_at", "-pk").values("pk")[:_LATELY]
    names = JobTag.unscoped.filter(job__in=keys).values_list("name").annotate(jobs=Count("pk"))
    return [name for name, _jobs in names.order_by("-jobs", "name")[:_MOST]]
