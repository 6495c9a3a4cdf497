"""Who may do what where.

A role is a set of points. A membership on a folder counts for everything below it. What a viewer may
not see does not exist for them: `require` answers "not found" before it answers "not allowed".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from foundation.actor import SYSTEM, Actor
from foundation.errors import NotFound, PermissionDenied
from tenants.grants import grants_of
from tenants.models import Tenant, TenantKind
from tenants.points import PLATFORM_POINTS, ROLE_PERMISSIONS, Permission

__all__ = [
    "PLATFORM_POINTS",
    "ROLE_PERMISSIONS",
    "Permission",
    "granted",
    "granted_anywhere",
    "may",
    "require",
    "require_cover",
    "visible_tenants",
    "visible_workspace_ids",
    "visible_workspaces",
]


def granted(actor: Actor, tenant: Tenant | None = None) -> frozenset[Permission]:
    """All points that `actor` has on `tenant`, inherited ones and platform-wide ones included."""
    if actor is SYSTEM:
        return frozenset(Permission)
    path = tenant.path if tenant is not None else None
    return frozenset().union(*(grant.points for grant in grants_of(actor) if grant.counts_on(path)))


def granted_anywhere(actor: Actor) -> frozenset[Permission]:
    """All points that `actor` has on any tenant or on the platform: what a key of theirs may be good for."""
    return frozenset().union(*(grant.points for grant in grants_of(actor)))


def may(actor: Actor, permission: Permission, tenant: Tenant | None = None) -> bool:
    """Whether `actor` has `permission` on `tenant`, or on the platform when no tenant is given."""
    return permission in granted(actor, tenant)


def require(actor: Actor, permission: Permission, tenant: Tenant | None = None) -> None:
    """Check a permission.

    Raises: NotFound when the actor may not even see the tenant; PermissionDenied otherwise.
    """
    points = granted(actor, tenant)
    if permission in points:
        return
    if tenant is not None and Permission.TENANT_VIEW not in points:
        raise NotFound
    lacking = {"user": actor.get_username(), "permission": permission.value}
    raise PermissionDenied(_("%(user)s lacks the permission %(permission)s.") % lacking)


def require_cover(actor: Actor, points: Iterable[Permission], tenant: Tenant | None = None) -> None:
    """Check that `actor` has all of `points`: nobody gives, changes or takes what they do not have.

    Raises: PermissionDenied with code CANNOT_GRANT and the points that are lacking.
    """
    lacking = sorted(set(points) - granted(actor, tenant))
    if lacking:
        message = _("This holds permissions that you do not have yourself: %(points)s.")
        raise PermissionDenied(
            message % {"points": ", ".join(lacking)}, code="CANNOT_GRANT", numbers={"points": lacking}
        )


def visible_tenants(actor: Actor) -> QuerySet[Tenant]:
    """Tenants that `actor` may see, by membership on them or above them; archived ones too."""
    if may(actor, Permission.TENANT_VIEW):
        return Tenant.unscoped.all()
    below = Q(pk__in=[])
    for grant in grants_of(actor):
        if grant.path is not None and Permission.TENANT_VIEW in grant.points:
            below |= Q(path__startswith=grant.path)
    return Tenant.unscoped.filter(below)


def visible_workspaces(actor: Actor) -> QuerySet[Tenant]:
    """Workspaces among the visible tenants that are not archived, by name."""
    live = visible_tenants(actor).filter(kind=TenantKind.WORKSPACE, archived_at__isnull=True)
    return live.order_by("name", "id")


def visible_workspace_ids(actor: Actor) -> QuerySet[Tenant, uuid.UUID]:
    """Ids for use in a sub-query; archived workspaces too, whose past stays readable."""
    return visible_tenants(actor).filter(kind=TenantKind.WORKSPACE).values_list("id", flat=True)
