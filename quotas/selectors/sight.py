"""Tenants whose quota a viewer may see."""

from __future__ import annotations

from django.db.models import QuerySet

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def quota_tenants(viewer: Actor) -> QuerySet[Tenant]:
    """Return the tenants on which the viewer has the permission to see quotas, by a role there or above."""
    return permissions.tenants_with(viewer, Permission.QUOTA_VIEW)
