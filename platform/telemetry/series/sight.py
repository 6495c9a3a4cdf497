"""Whose readings a viewer may see."""

from __future__ import annotations

from django.db.models import QuerySet

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def job_tenants(viewer: Actor) -> QuerySet[Tenant]:
    """Tenants whose jobs the viewer may see: all for whoever looks at clusters, on whose nodes they stand."""
    if permissions.has_permission(viewer, Permission.CLUSTER_VIEW):
        return Tenant.unscoped.all()
    return permissions.tenants_with(viewer, Permission.JOB_VIEW)
