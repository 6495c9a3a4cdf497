"""Who may see and change the alerts of a tenant or of the platform."""

from __future__ import annotations

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def require_view(actor: Actor, tenant: Tenant | None) -> None:
    """Check that alerts of a tenant, or without one those of the platform, may be seen.

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_VIEW if tenant is None else Permission.TENANT_VIEW
    permissions.require_permission(actor, point, tenant)


def require_edit(actor: Actor, tenant: Tenant | None) -> None:
    """Check that rules, channels and silences of a tenant or of the platform may be changed.

    Raises: NotFound, PermissionDenied.
    """
    point = Permission.CLUSTER_EDIT if tenant is None else Permission.TENANT_EDIT
    permissions.require_permission(actor, point, tenant)


def may_edit(actor: Actor, tenant: Tenant | None) -> bool:
    """Tell whether `require_edit` would pass."""
    point = Permission.CLUSTER_EDIT if tenant is None else Permission.TENANT_EDIT
    return permissions.has_permission(actor, point, tenant)
