"""Reading roles."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid, NotFound
from tenants.access import permissions
from tenants.access.permission_points import ROLE_PERMISSIONS
from tenants.access.permissions import Permission
from tenants.models import PLATFORM_ROLES, CustomRole, Role, Tenant


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in role."""

    name: str
    points: frozenset[Permission]


def built_in_list(tenant: Tenant | None) -> list[BuiltIn]:
    """Return the built-in roles that may be given on a tenant, or on the platform for None."""
    names = [role for role in Role if (role in PLATFORM_ROLES) == (tenant is None)]
    return [BuiltIn(role.value, ROLE_PERMISSIONS[role]) for role in names]


def role_list(*, viewer: Actor, tenant: Tenant | None) -> QuerySet[CustomRole]:
    """Return the custom roles that may be given on `tenant`, or on the platform; by name.

    Raises: NotFound, PermissionDenied.
    """
    needed = Permission.MEMBER_EDIT if tenant is None else Permission.TENANT_VIEW
    permissions.require_permission(viewer, needed, tenant)
    roles = CustomRole.unscoped.select_related("tenant").order_by("name", "pk")
    if tenant is None:
        return roles.filter(tenant__isnull=True)
    return roles.filter(tenant_id__in=tenant.ancestor_ids())


def role_get(*, viewer: Actor, tenant: Tenant | None, role_id: uuid.UUID) -> CustomRole:
    """Return one custom role of `tenant`, or of the platform.

    Raises: NotFound, PermissionDenied.
    """
    role = role_list(viewer=viewer, tenant=tenant).filter(tenant=tenant, pk=role_id).first()
    if role is None:
        raise NotFound(_("Role not found."))
    return role


def role_named(*, viewer: Actor, tenant: Tenant | None, name: str) -> Role | CustomRole:
    """Return the built-in role of that word, else the custom role of that name, nearest to `tenant` first.

    Raises: Invalid when there is none that may be given here; NotFound, PermissionDenied.
    """
    if name in Role.values:
        return Role(name)
    found = [r for r in role_list(viewer=viewer, tenant=tenant) if r.name.casefold() == name.casefold()]
    if not found:
        message = _("Role %(name)s not found.") % {"name": name}
        raise Invalid(message, errors=[FieldError("role", "unknown", message)])
    return max(found, key=lambda role: len(role.tenant.path) if role.tenant else 0)
