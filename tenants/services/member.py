"""Memberships: the roles of users and groups. An actor gives, changes and takes only permissions of their
own.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.sql.versions import advance_version
from tenants.access import permissions
from tenants.access.permission_points import ROLE_PERMISSIONS, points_of
from tenants.access.permissions import Permission
from tenants.access.rights import role_points
from tenants.models import PLATFORM_ROLES, CustomRole, Group, Member, Role, Tenant, User
from tenants.services.last_admin import require_admin_left
from tenants.services.tree import require_live

AnyRole = Role | CustomRole


def member_set(
    *,
    acting_user: Actor,
    tenant: Tenant | None,
    role: AnyRole,
    user: User | None = None,
    group: Group | None = None,
    expected: int | None = None,
) -> Member:
    """Give a user or a group the role on `tenant` (or on the platform), replacing its role there.

    Raises: PermissionDenied, also for a role with more permissions than the acting user has, or replacing
    such a role; Invalid when the role does not belong to that place or the account belongs to another tenant;
    Conflict for an archived tenant or the last admin of the platform.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, tenant)
    if tenant is not None:
        require_live(tenant)
    _check_place(role, tenant)
    if user is not None:
        _check_account(user, tenant)
    permissions.require_cover(acting_user, _points(role), tenant)
    with require_admin_left():
        member = Member.unscoped.filter(user=user, group=group, tenant=tenant).first()
        before = _described(member) if member else None
        if member is not None:
            permissions.require_cover(acting_user, role_points(member), tenant)
            advance_version(member, expected=expected)
        else:
            member = Member(user=user, group=group, tenant=tenant)
        member.role, member.custom_role = ("", role) if isinstance(role, CustomRole) else (role, None)
        _save(member)
        _note(acting_user, "set", member, before=before, after=_described(member))
    return member


def _save(member: Member) -> None:
    try:
        with transaction.atomic():
            member.save()
    except IntegrityError as error:
        raise Conflict(_("Roles were changed at the same time. Reload and try again.")) from error


def member_remove(*, acting_user: Actor, member: Member, expected: int | None = None) -> None:
    """Remove a role; inherited roles and roles by groups stay.

    Raises: PermissionDenied, NotFound; Conflict for the last admin of the platform.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, member.tenant)
    permissions.require_cover(acting_user, role_points(member), member.tenant)
    with require_admin_left():
        advance_version(member, expected=expected)
        before = _described(member)
        _note(acting_user, "remove", member, before=before)
        member.delete()


def _check_place(role: AnyRole, tenant: Tenant | None) -> None:
    if isinstance(role, CustomRole):
        fits = (
            tenant is None
            if role.tenant is None
            else tenant is not None and role.tenant.contains_tenant(tenant)
        )
    else:
        fits = (tenant is None) == (role in PLATFORM_ROLES)
    if not fits:
        message = (
            _("Role %(role)s can't be assigned at platform level.")
            if tenant is None
            else _("Role %(role)s can't be assigned to a tenant.")
        )
        text = message % {"role": role}
        raise Invalid(text, errors=[FieldError("role", "place", text)])


def _check_account(user: User, tenant: Tenant | None) -> None:
    """Refuse roles of a service account outside its home tenant, whose admins control its keys. Raises:
    Invalid.
    """
    if user.home is not None and (tenant is None or not user.home.contains_tenant(tenant)):
        message = _("Service account %(name)s can only have roles in %(tenant)s.")
        text = message % {"name": user.username, "tenant": user.home.name}
        raise Invalid(text, errors=[FieldError("user", "home", text)])


def _points(role: AnyRole) -> frozenset[Permission]:
    return points_of(role.points) if isinstance(role, CustomRole) else ROLE_PERMISSIONS[role]


def _described(member: Member) -> dict[str, str]:
    kind = "user" if member.user else "group"
    return {kind: member.subject_name, "role": member.role_name}


def _note(actor: Actor, verb: str, member: Member, **change: dict[str, str] | None) -> None:
    audit_log.record_action(
        actor,
        f"member.{verb}",
        entity="member",
        entity_id=member.pk,
        tenant_id=member.tenant_id,
        **change,
    )
