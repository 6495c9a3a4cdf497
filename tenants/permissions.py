"""Permission points and who has them.

A role is a set of points. A membership on a folder counts for everything below it. What a viewer may
not see does not exist for them: `require` answers "not found" before it answers "not allowed".
"""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import Final

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from foundation.actor import SYSTEM, Actor
from foundation.errors import NotFound, PermissionDenied
from tenants.models import Member, Role, Tenant, TenantKind


class Permission(StrEnum):
    TENANT_VIEW = "tenant.view"
    TENANT_EDIT = "tenant.edit"
    MEMBER_EDIT = "member.edit"
    QUOTA_VIEW = "quota.view"
    QUOTA_EDIT = "quota.edit"
    QUEUE_EDIT = "queue.edit"
    JOB_VIEW = "job.view"
    JOB_SUBMIT = "job.submit"
    JOB_STOP_OWN = "job.stop-own"
    JOB_STOP_ANY = "job.stop-any"
    CLUSTER_VIEW = "cluster.view"
    CLUSTER_EDIT = "cluster.edit"
    AUDIT_VIEW = "audit.view"


_P = Permission
_VIEWER: Final = frozenset({_P.TENANT_VIEW, _P.QUOTA_VIEW, _P.JOB_VIEW})
_EDITOR: Final = _VIEWER | {_P.JOB_SUBMIT, _P.JOB_STOP_OWN}
_ADMIN: Final = _EDITOR | {_P.TENANT_EDIT, _P.MEMBER_EDIT, _P.QUOTA_EDIT, _P.QUEUE_EDIT, _P.JOB_STOP_ANY}

ROLE_PERMISSIONS: Final[dict[str, frozenset[Permission]]] = {
    Role.VIEWER: _VIEWER,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: _ADMIN,
    Role.PLATFORM_VIEWER: _VIEWER | {_P.CLUSTER_VIEW},
    Role.PLATFORM_ADMIN: frozenset(Permission),
    Role.AUDITOR: frozenset({_P.TENANT_VIEW, _P.AUDIT_VIEW}),
}


def granted(actor: Actor, tenant: Tenant | None = None) -> frozenset[Permission]:
    """All points that `actor` has on `tenant`, inherited ones and platform-wide ones included."""
    if actor is SYSTEM:
        return frozenset(Permission)
    scope = Q(tenant__isnull=True)
    if tenant is not None:
        scope |= Q(tenant_id__in=tenant.ancestor_ids())
    roles = Member.unscoped.filter(scope, user=actor.pk).values_list("role", flat=True)
    return frozenset().union(*(ROLE_PERMISSIONS[role] for role in roles))


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


def visible_tenants(actor: Actor) -> QuerySet[Tenant]:
    """Tenants that `actor` may see, by membership on them or above them."""
    if may(actor, Permission.TENANT_VIEW):
        return Tenant.unscoped.all()
    roots = Member.unscoped.filter(user=actor.pk, tenant__isnull=False).values_list("tenant__path", flat=True)
    below = Q(pk__in=[])
    for path in roots:
        below |= Q(path__startswith=path)
    return Tenant.unscoped.filter(below)


def visible_workspaces(actor: Actor) -> QuerySet[Tenant]:
    """Workspaces among the visible tenants, by name."""
    return visible_tenants(actor).filter(kind=TenantKind.WORKSPACE).order_by("name", "id")


def visible_workspace_ids(actor: Actor) -> QuerySet[Tenant, uuid.UUID]:
    """Ids for use in a sub-query."""
    return visible_tenants(actor).filter(kind=TenantKind.WORKSPACE).values_list("id", flat=True)
