"""Whose quota somebody may see."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from foundation.actor import Actor
from tenants import permissions
from tenants.grants import grants_of
from tenants.models import Tenant
from tenants.permissions import Permission


def quota_tenants(viewer: Actor) -> QuerySet[Tenant]:
    """Tenants on which the viewer has the right to see quotas, by a role there or above."""
    if permissions.may(viewer, Permission.QUOTA_VIEW):
        return Tenant.unscoped.all()
    below = Q(pk__in=[])
    for grant in grants_of(viewer):
        if grant.path is not None and Permission.QUOTA_VIEW in grant.points:
            below |= Q(path__startswith=grant.path)
    return Tenant.unscoped.filter(below)
