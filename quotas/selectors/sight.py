"""Whose quota somebody may see."""

from __future__ import annotations

from django.db.models import QuerySet

from foundation.core.actor import Actor
from tenants import permissions
from tenants.models import Tenant
from tenants.permissions import Permission


def quota_tenants(viewer: Actor) -> QuerySet[Tenant]:
    """Tenants on which the viewer has the right to see quotas, by a role there or above."""
    return permissions.tenants_with(viewer, Permission.QUOTA_VIEW)
