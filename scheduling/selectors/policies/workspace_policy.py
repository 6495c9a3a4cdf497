"""Reads workspace policies."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Final

from django.db.models import QuerySet

from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from scheduling.models import WorkspacePolicy
from scheduling.policy import EffectivePolicy, combine_policies
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_ON_PATH: Final = PreparedQuery(
    lambda tenants: (
        WorkspacePolicy.unscoped.filter(tenant__pk__any_of=tenants).order_by().select_related("tenant")
    )
)


def policy_list(*, viewer: Actor) -> QuerySet[WorkspacePolicy]:
    """Return the policies of visible tenants, by tenant."""
    rows = WorkspacePolicy.unscoped.filter(tenant__in=permissions.visible_tenants(viewer))
    return rows.select_related("tenant__parent").order_by("tenant__slug", "pk")


def policies_by_tenant(tenants: Collection[uuid.UUID]) -> dict[uuid.UUID, WorkspacePolicy]:
    """Return the own policies of tenants; the caller has checked that the viewer may see the tenants."""
    return {row.tenant_id: row for row in WorkspacePolicy.unscoped.filter(tenant__in=tenants)}


def policy_own(*, viewer: Actor, tenant: Tenant) -> WorkspacePolicy:
    """Return the tenant's own policy; if it has none, an unsaved row with version 0.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.TENANT_VIEW, tenant)
    found = WorkspacePolicy.unscoped.filter(tenant=tenant).select_related("tenant").first()
    return found or WorkspacePolicy(tenant=tenant)


def policy_effective(*, viewer: Actor, tenant: Tenant) -> EffectivePolicy:
    """Return the effective policy for jobs of the tenant, from its policy and those of its ancestors. It
    applies to every user who sees the tenant, so its limits and the tenants that set them are not secret
    here.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.TENANT_VIEW, tenant)
    return combine_policies(path_policies(tenant))


def path_policies(tenant: Tenant) -> Sequence[WorkspacePolicy]:
    """Return the policies on the path from the root to a tenant; the caller has checked permissions."""
    above = tenant.ancestor_ids()
    rows = _ON_PATH.for_any([uuid.UUID(each) for each in above])
    return sorted(rows, key=lambda row: above.index(str(row.tenant_id)))
