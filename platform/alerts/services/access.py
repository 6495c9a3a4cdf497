"""Permissions to view and change the alerts of a tenant or of the platform."""

from __future__ import annotations

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def require_view(actor: Actor, tenant: Tenant | None) -> None:
    """Check that the actor may view the rules, channels and silences of a tenant (None: of the platform).

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.TENANT_VIEW
    permissions.require_permission(actor, point, tenant)


def require_alert_view(actor: Actor, tenant: Tenant | None) -> None:
    """Check that the actor may view alerts: these name jobs and describe their state.

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW
    permissions.require_permission(actor, point, tenant)


def may_view_alerts(actor: Actor, tenant: Tenant | None) -> bool:
    """Return whether `require_alert_view` would pass."""
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW
    return permissions.has_permission(actor, point, tenant)


def require_edit(actor: Actor, tenant: Tenant | None) -> None:
    """Check that the actor may change the rules, channels and silences of a tenant (None: of the platform).

    Raises: NotFound, PermissionDenied.
    """
    require_alert_view(actor, tenant)  # rules and channels decide who gets notifications about jobs
    permissions.require_permission(actor, _edit_point(tenant), tenant)


def may_edit(actor: Actor, tenant: Tenant | None) -> bool:
    """Return whether `require_edit` would pass."""
    needed = {_edit_point(tenant), Permission.CLUSTER_VIEW if tenant is None else Permission.JOB_VIEW}
    return needed <= permissions.permissions_on(actor, tenant)


def _edit_point(tenant: Tenant | None) -> Permission:
    return Permission.CLUSTER_EDIT if tenant is None else Permission.TENANT_EDIT
