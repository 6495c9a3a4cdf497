"""Checks which readings a viewer may see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from scheduling.models import Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class MeasuredThing:
    """The subject of series. `level`: cluster, node, gpu, workspace or job; without an id all clusters."""

    level: str
    pk: uuid.UUID | None = None


def job_tenants(viewer: Actor) -> QuerySet[Tenant]:
    """Return the tenants whose jobs the viewer may see: all with the permission to view clusters."""
    if permissions.has_permission(viewer, Permission.CLUSTER_VIEW):
        return Tenant.unscoped.all()
    return permissions.tenants_with(viewer, Permission.JOB_VIEW)


def require_sight(viewer: Actor, thing: MeasuredThing) -> None:
    """Check that the viewer may see the measurements of a subject.

    Raises: NotFound for a workspace or job whose jobs the viewer may not see, and for a missing one;
    PermissionDenied without `cluster.view` for all other subjects.
    """
    if thing.level == "job":
        job = Job.unscoped.select_related("workspace").filter(pk=thing.pk or uuid.UUID(int=0)).first()
        if job is None or not permissions.has_permission(viewer, Permission.JOB_VIEW, job.workspace):
            raise NotFound(_("Job not found."))
    elif thing.level == "workspace":
        tenant = Tenant.unscoped.filter(pk=thing.pk or uuid.UUID(int=0)).first()
        if tenant is None or not permissions.has_permission(viewer, Permission.JOB_VIEW, tenant):
            raise NotFound(_("Workspace not found."))
    else:
        permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
