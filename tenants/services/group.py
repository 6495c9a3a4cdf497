"""Groups of users. Only users who may edit members of the platform change groups and their members."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.sql.versions import advance_version, require_current
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.access.rights import role_points
from tenants.models import Group, GroupMember, Member, User
from tenants.models.names import clean_name, same_name
from tenants.services.last_admin import require_admin_left


@transaction.atomic
def group_create(*, acting_user: Actor, name: str, claim: str = "") -> Group:
    """Create a group; with a `claim`, the one of that name at the identity provider.

    Raises: PermissionDenied; Invalid for the name; Conflict when name or claim is taken.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT)
    group = Group(name=clean_name(name), claim=claim.strip() or None)
    _require_claim(acting_user, group.claim)
    _save(group, new=True)
    _note(acting_user, "create", group, after=_described(group))
    return group


@transaction.atomic
def group_update(
    *,
    acting_user: Actor,
    group: Group,
    name: str | None = None,
    claim: str | None = None,
    expected: int | None = None,
) -> Group:
    """Rename a group, or link it to another group of the identity provider.

    Raises: as `group_create`.
    """
    _require(acting_user, group)
    group = Group.unscoped.select_for_update().get(pk=group.pk)
    require_current(group, expected)
    before = _described(group)
    if name is not None:
        group.name = clean_name(name)
    if claim is not None:
        group.claim = claim.strip() or None
        _require_claim(acting_user, group.claim)
    if _described(group) == before:
        return group
    group.version += 1
    _save(group, new=False)
    _note(acting_user, "update", group, before=before, after=_described(group))
    return group


def group_delete(*, acting_user: Actor, group: Group, expected: int | None = None) -> None:
    """Delete a group and every role that it has.

    Raises: PermissionDenied; Conflict for the last admin of the platform.
    """
    _require(acting_user, group)
    with require_admin_left():
        advance_version(group, expected=expected)
        _note(acting_user, "delete", group, before=_described(group))
        group.delete()


@transaction.atomic
def group_add(*, acting_user: Actor, group: Group, user: User) -> GroupMember:
    """Add a user to a group; does nothing for a user who is in it.

    Raises: PermissionDenied; Invalid for a service account; Conflict where the identity provider sets the
    members.
    """
    _require(acting_user, group)
    _require_local(group)
    if user.is_service:
        message = _("Service accounts can't join groups.")
        raise Invalid(message, errors=[FieldError("username", "service", message)])
    row, made = GroupMember.unscoped.get_or_create(group=group, user=user)
    if made:
        _note(acting_user, "add", group, after={"user": user.username})
    return row


def group_remove(*, acting_user: Actor, group: Group, user: User) -> None:
    """Remove a user from a group.

    Raises: PermissionDenied; Conflict for the last admin, or where the identity provider sets the members.
    """
    _require(acting_user, group)
    _require_local(group)
    with require_admin_left():
        row = GroupMember.unscoped.filter(group=group, user=user).first()
        if row is not None:
            row.delete()
            _note(acting_user, "remove", group, before={"user": user.username})


def _require(actor: Actor, group: Group) -> None:
    """Check that the actor may give all roles of a group, because its members get all of them."""
    permissions.require_permission(actor, Permission.MEMBER_EDIT)
    for member in Member.unscoped.filter(group=group).select_related("tenant", "custom_role"):
        permissions.require_cover(actor, role_points(member), member.tenant)


def _require_claim(actor: Actor, claim: str | None) -> None:
    """Check that the actor may set a claim: members of an admin group of the provider are platform admins."""
    if claim in settings.ALLOTMENT_OIDC_ADMIN_GROUPS:
        permissions.require_cover(actor, Permission)


def _require_local(group: Group) -> None:
    if group.claim is not None:
        message = _("Membership of %(name)s is managed by the identity provider.") % {"name": group.name}
        raise Conflict(message, code="GROUP_IS_EXTERNAL")


def _save(group: Group, *, new: bool) -> None:
    others = Group.unscoped.exclude(pk=group.pk)
    if any(same_name(group.name, name) for name in others.values_list("name", flat=True)):
        raise _taken("name", group.name)
    if group.claim is not None and others.filter(claim=group.claim).exists():
        raise _taken("claim", group.claim)
    try:
        with transaction.atomic():
            group.save(force_insert=new)
    except IntegrityError as error:  # a concurrent request took the name
        raise _taken("name", group.name) from error


def _taken(field: str, name: str) -> Conflict:
    message = _("Group %(name)s already exists.") % {"name": name}
    return Conflict(message, code="NAME_TAKEN", errors=[FieldError(field, "taken", message)])


def _described(group: Group) -> dict[str, object]:
    return {"name": group.name, "claim": group.claim}


def _note(actor: Actor, verb: str, group: Group, **change: Any) -> None:
    audit_log.record_action(actor, f"group.{verb}", entity="group", entity_id=group.pk, **change)
