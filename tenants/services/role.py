"""Custom roles: sets of permissions that the built-in roles do not offer."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.sql.versions import advance_version, require_current
from tenants.access import grants, permissions
from tenants.access.permission_points import PLATFORM_POINTS, points_of
from tenants.access.permissions import Permission
from tenants.models import CustomRole, Member, Role, Tenant
from tenants.models.names import clean_name, same_name
from tenants.services.tree import require_live


@transaction.atomic
def role_create(
    *,
    acting_user: Actor,
    tenant: Tenant | None,
    name: str,
    points: Iterable[Permission],
    description: str = "",
) -> CustomRole:
    """Create a role that may be given on `tenant` and below it, or on the platform.

    Raises: PermissionDenied, also for permissions that the acting user lacks; Invalid for the name or for
    permissions that a tenant's role cannot hold; Conflict when the name is taken.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, tenant)
    if tenant is not None:
        require_live(tenant)
    wanted = _checked(acting_user, tenant, points)
    role = CustomRole(tenant=tenant, name=_name(name), description=description, points=wanted)
    _save(role, new=True)
    _note(acting_user, "create", role, after=_described(role))
    return role


@transaction.atomic
def role_update(
    *,
    acting_user: Actor,
    role: CustomRole,
    name: str | None = None,
    points: Iterable[Permission] | None = None,
    description: str | None = None,
    expected: int | None = None,
) -> CustomRole:
    """Change a role for all its members. Fields that are None stay unchanged.

    Raises: as `role_create`; the acting user also needs the permissions that the role had before.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, role.tenant)
    role = CustomRole.unscoped.select_for_update(of=("self",)).select_related("tenant").get(pk=role.pk)
    require_current(role, expected)
    permissions.require_cover(acting_user, points_of(role.points), role.tenant)
    before = _described(role)
    if name is not None:
        role.name = _name(name)
    if description is not None:
        role.description = description
    if points is not None:
        role.points = _checked(acting_user, role.tenant, points)
    if _described(role) == before:
        return role
    role.version += 1
    _save(role, new=False)
    _note(acting_user, "update", role, before=before, after=_described(role))
    return role


@transaction.atomic
def role_delete(*, acting_user: Actor, role: CustomRole, expected: int | None = None) -> None:
    """Delete a role without members.

    Raises: PermissionDenied, NotFound; Conflict while the role has members.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, role.tenant)
    permissions.require_cover(acting_user, points_of(role.points), role.tenant)
    advance_version(role, expected=expected)
    role_id = role.pk
    try:
        with transaction.atomic():
            role.delete()
    except ProtectedError as error:
        number = Member.unscoped.filter(custom_role_id=role_id).count()
        message = _("Assignments of this role: %(number)s. Change them first.") % {"number": number}
        raise Conflict(message, code="ROLE_IN_USE", numbers={"members": number}) from error
    role.pk = role_id
    _note(acting_user, "delete", role, before=_described(role))


def role_copy(actor: Actor, role: CustomRole, tenant: Tenant) -> CustomRole:
    """Create a role of `tenant` with the same permissions and a free name, without a check of the actor."""
    taken = {name.casefold() for name in tenant.custom_roles.values_list("name", flat=True)}
    ends = ("", *(f" {number}" for number in range(2, len(taken) + 3)))
    name = next(found for end in ends if (found := role.name[: 60 - len(end)] + end).casefold() not in taken)
    copy = CustomRole(tenant=tenant, name=name, description=role.description, points=list(role.points))
    _save(copy, new=True)
    _note(actor, "create", copy, after={**_described(copy), "copy_of": str(role.pk)})
    return copy


def _checked(actor: Actor, tenant: Tenant | None, points: Iterable[Permission]) -> list[str]:
    wanted = frozenset(points)
    if not wanted:
        raise _invalid("points", "empty", _("A role requires at least one permission."))
    misplaced = sorted(wanted & PLATFORM_POINTS) if tenant is not None else []
    if misplaced:
        message = _("Platform-level permissions only: %(points)s.")
        raise _invalid("points", "platform", message % {"points": ", ".join(misplaced)})
    permissions.require_cover(actor, wanted, tenant)
    return sorted(wanted)


def _name(text: str) -> str:
    name = clean_name(text, longest=60)
    if any(same_name(name, role.value) for role in Role):
        raise _invalid("name", "built-in", _("A built-in role %(name)s already exists.") % {"name": name})
    return name


def _invalid(field: str, code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(field, code, message)])


def _save(role: CustomRole, *, new: bool) -> None:
    try:
        with transaction.atomic():
            role.save(force_insert=new)
    except IntegrityError as error:
        message = _("Role %(name)s already exists.") % {"name": role.name}
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("name", "taken", message)]) from error
    grants.forget_grants()


def _described(role: CustomRole) -> dict[str, object]:
    return {"name": role.name, "description": role.description, "points": list(role.points)}


def _note(actor: Actor, verb: str, role: CustomRole, **change: dict[str, object]) -> None:
    audit_log.record_action(
        actor, f"role.{verb}", entity="role", entity_id=role.pk, tenant_id=role.tenant_id, **change
    )
