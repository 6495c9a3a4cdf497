"""The permission checks: user, action and tenant.

A role is a set of permissions. A membership on a folder applies to everything below it. Tenants that a viewer
may not see are reported as missing: `require_permission` raises NotFound before PermissionDenied.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import NotFound, PermissionDenied
from tenants.access.grants import Grant, bound_of, grants_held, grants_of
from tenants.access.permission_points import PLATFORM_POINTS, ROLE_PERMISSIONS, Permission
from tenants.models import Tenant, TenantKind

__all__ = [
    "PLATFORM_POINTS",
    "ROLE_PERMISSIONS",
    "Permission",
    "has_above_workspaces",
    "has_permission",
    "is_over",
    "missing_permission",
    "permissions_anywhere",
    "permissions_on",
    "require_above_workspaces",
    "require_cover",
    "require_over",
    "require_permission",
    "tenants_with",
    "visible_tenants",
    "visible_workspace_ids",
    "visible_workspaces",
]


def permissions_on(actor: Actor, tenant: Tenant | None = None) -> frozenset[Permission]:
    """Return all permissions of `actor` on `tenant`, inherited and platform-wide ones included."""
    if actor is SYSTEM:
        return frozenset(Permission)
    return _on(grants_of(actor), tenant.path if tenant is not None else None)


def _on(grants: Iterable[Grant], path: str | None) -> frozenset[Permission]:
    return frozenset().union(*(grant.points for grant in grants if grant.counts_on(path)))


def permissions_anywhere(actor: Actor) -> frozenset[Permission]:
    """Return all permissions of `actor` on any tenant or on the platform: the scopes that a key may have."""
    if actor is SYSTEM:
        return frozenset(Permission)
    return frozenset().union(*(grant.points for grant in grants_of(actor)))


def has_permission(actor: Actor, permission: Permission, tenant: Tenant | None = None) -> bool:
    """Return whether `actor` has `permission` on `tenant`, or on the platform when no tenant is given."""
    return permission in permissions_on(actor, tenant)


def require_permission(actor: Actor, permission: Permission, tenant: Tenant | None = None) -> None:
    """Check a permission.

    Raises: NotFound when the actor may not even see the tenant; PermissionDenied otherwise.
    """
    points = permissions_on(actor, tenant)
    if permission in points:
        return
    if tenant is not None and Permission.TENANT_VIEW not in points:
        raise NotFound
    raise missing_permission(actor, permission, tenant)


def has_above_workspaces(actor: Actor, permission: Permission) -> bool:
    """Return whether `actor` has `permission` on the platform or on a folder, by any role."""
    if actor is SYSTEM:
        return True
    return any(permission in grant.points and not grant.on_workspace for grant in grants_of(actor))


def require_above_workspaces(actor: Actor, permission: Permission) -> None:
    """Check that `actor` has `permission` on the platform or on a folder. Raises: PermissionDenied."""
    if not has_above_workspaces(actor, permission):
        raise missing_permission(actor, permission)


def missing_permission(
    actor: Actor, permission: Permission, tenant: Tenant | None = None
) -> PermissionDenied:
    """Return the error for a user without a permission on a tenant or the platform."""
    bound = bound_of(actor)
    if bound is not None and permission in _on(grants_held(actor), tenant.path if tenant else None):
        return _scope_missing()
    lacking = {"user": actor.get_username(), "permission": permission.value}
    return PermissionDenied(_("%(user)s doesn't have permission %(permission)s.") % lacking)


def require_cover(actor: Actor, points: Iterable[Permission], tenant: Tenant | None = None) -> None:
    """Check that `actor` has all of `points`: a user gives, changes and takes only permissions of their own.

    A key with scopes can give only its scopes. Raises: PermissionDenied with code CANNOT_GRANT and the points
    that are missing, or SCOPE_MISSING.
    """
    path = tenant.path if tenant is not None else None
    lacking = sorted(set(points) - _coverable(actor, path))
    if lacking:
        _refuse_bound(actor, {path: set(lacking)})
        message = _("You can't grant permissions you don't have: %(points)s.")
        raise PermissionDenied(
            message % {"points": ", ".join(lacking)}, code="CANNOT_GRANT", numbers={"points": lacking}
        )


def require_over(actor: Actor, user: Actor) -> None:
    """Check that `actor` may do all that `user` may, on every tenant and on the platform.

    A user who sets a password, creates a key or closes an account could act in the place of its owner. Every
    service that changes an account calls this. Raises: PermissionDenied with code ACCOUNT_HAS_MORE_RIGHTS and
    the points that are missing, or SCOPE_MISSING.
    """
    lacking: dict[str | None, set[Permission]] = {}
    for grant in grants_held(user):
        missing = grant.points - _coverable(actor, grant.path)
        if missing:
            lacking.setdefault(grant.path, set()).update(missing)
    if lacking:
        _refuse_bound(actor, lacking)
        points = sorted(set().union(*lacking.values()))
        message = _("%(user)s has permissions that you don't have: %(points)s.")
        raise PermissionDenied(
            message % {"user": user.get_username(), "points": ", ".join(points)},
            code="ACCOUNT_HAS_MORE_RIGHTS",
            numbers={"points": points},
        )


def is_over(actor: Actor, user: Actor) -> bool:
    """Return whether `require_over` would pass."""
    return all(grant.points <= _coverable(actor, grant.path) for grant in grants_held(user))


def _coverable(actor: Actor, path: str | None) -> frozenset[Permission]:
    """Return the permissions that `actor` may give there: a key's scopes without the views that they need."""
    if actor is SYSTEM:
        return frozenset(Permission)
    bound = bound_of(actor)
    points = _on(grants_of(actor), path)
    return points if bound is None else points & bound.scopes


def _refuse_bound(actor: Actor, lacking: dict[str | None, set[Permission]]) -> None:
    """Raise the error about the key's scopes where the key's owner would have all that is lacking."""
    if bound_of(actor) is None:
        return
    held = grants_held(actor)
    if all(points <= _on(held, path) for path, points in lacking.items()):
        raise _scope_missing()


def _scope_missing() -> PermissionDenied:
    return PermissionDenied(_("The access key doesn't have the required scope."), code="SCOPE_MISSING")


def tenants_with(actor: Actor, permission: Permission) -> QuerySet[Tenant]:
    """Return the tenants on which `actor` has `permission`, by a role there or above; archived ones too."""
    if has_permission(actor, permission):
        return Tenant.unscoped.all()
    below = Q(pk__in=[])
    for grant in grants_of(actor):
        if grant.path is not None and permission in grant.points:
            below |= Q(path__startswith=grant.path)
    return Tenant.unscoped.filter(below)


def visible_tenants(actor: Actor) -> QuerySet[Tenant]:
    """Return the tenants that `actor` may see, by membership on them or above them; archived ones too."""
    return tenants_with(actor, Permission.TENANT_VIEW)


def visible_workspaces(actor: Actor) -> QuerySet[Tenant]:
    """Return the visible workspaces that are not archived, by name."""
    live = visible_tenants(actor).filter(kind=TenantKind.WORKSPACE, archived_at__isnull=True)
    return live.order_by("name", "id")


def visible_workspace_ids(actor: Actor) -> QuerySet[Tenant, uuid.UUID]:
    """Return ids for use in a sub-query, also of archived workspaces, whose past stays readable."""
    return visible_tenants(actor).filter(kind=TenantKind.WORKSPACE).values_list("id", flat=True)
