"""Jobs by their tags, and the tags that a workspace uses."""

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
"""As many of the newest jobs are asked for their tags."""
_MOST: Final = 100


def jobs_tagged(condition: ColumnCondition, workspace: Tenant | None) -> Q:
    """Jobs of which a tag meets the condition: by their keys where they are few, so that a rare tag is not
    searched for along all jobs of the workspace."""
    meeting, without = condition.as_entry_query("name")
    rows = JobTag.unscoped.filter(meeting).order_by()
    if workspace is not None:
        rows = rows.filter(workspace=workspace)
    few = list(rows.values_list("job_id", flat=True)[:_FEW])
    found = Q(pk__in=few) if len(few) < _FEW else Q(Exists(rows.filter(job=OuterRef("pk"))))
    return ~found if without else found


def job_tags_lately(*, viewer: Actor, workspace: Tenant | None) -> list[str]:
    """The tags of the newest jobs of a workspace, or of all in the viewer's sight, the most used first; none
    for who may not see the jobs."""
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
