"""Permissions to view and change the alerts of a tenant or of the platform."""

from __future__ import annotations

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def require_view(actor: Actor, tenant: Tenant | None) -> None:
    """Check that rules, channels and silences of a tenant, or without one of the platform, may be seen.

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.TENANT_VIEW
    permissions.require_permission(actor, point, tenant)


def require_alert_view(actor: Actor, tenant: Tenant | None) -> None:
    """Check that alerts may be seen: they name jobs and say how these do.

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW
    permissions.require_permission(actor, point, tenant)


def may_view_alerts(actor: Actor, tenant: Tenant | None) -> bool:
    """Tell whether `require_alert_view` would pass."""
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW
    return permissions.has_permission(actor, point, tenant)


def require_edit(actor: Actor, tenant: Tenant | None) -> None:
    """Check that rules, channels and silences of a tenant or of the platform may be changed.

    Raises: NotFound, PermissionDenied.
    """
    require_alert_view(actor, tenant)  # who chooses rules and channels chooses who is told about jobs
    permissions.require_permission(actor, _edit_point(tenant), tenant)


def may_edit(actor: Actor, tenant: Tenant | None) -> bool:
    """Tell whether `require_edit` would pass."""
    needed = {_edit_point(tenant), Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW}
    return needed <= permissions.permissions_on(actor, tenant)


def _edit_point(tenant: Tenant | None) -> Permission:
    return Permission.CLUSTER_EDIT if tenant is None else Permission.TENANT_EDIT
