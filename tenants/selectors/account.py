"""Reading accounts and groups: operators list all of them; users who add members find one by name."""

from __future__ import annotations

import uuid
from typing import Final

from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid, NotFound
from foundation.web.listing import Column
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import AccountKind, Group, GroupMember, Tenant, User


def user_list(*, viewer: Actor) -> QuerySet[User]:
    """Return every user's account, by name. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.MEMBER_EDIT)
    return User.objects.filter(kind=AccountKind.PERSON).order_by("username", "pk")


def user_get(*, viewer: Actor, user_id: uuid.UUID) -> User:
    """Return one user's account. Raises: PermissionDenied, NotFound."""
    user = user_list(viewer=viewer).filter(pk=user_id).first()
    if user is None:
        raise NotFound(_("User not found."))
    return user


def locked_usernames() -> frozenset[str]:
    """Return the names that too many wrong passwords have locked at some address now."""
    attempts = AccessAttempt.objects.filter(
        failures_since_start__gte=settings.AXES_FAILURE_LIMIT,
        attempt_time__gt=clock.now() - settings.AXES_COOLOFF_TIME,
    )
    return frozenset(name for name in attempts.values_list("username", flat=True) if name)


def user_named(name: str, field: str = "user") -> User:
    """Return the active account of exactly that name, for a caller who may add members somewhere.

    Raises: Invalid naming `field`.
    """
    user = User.objects.filter(username=name, is_active=True).select_related("home").first()
    if user is None:
        raise _unknown(field, _("User %(name)s not found.") % {"name": name})
    return user


def group_named(name: str, field: str = "group") -> Group:
    """Return the group of exactly that name. Raises: Invalid naming `field`."""
    group = Group.unscoped.filter(name=name).first()
    if group is None:
        raise _unknown(field, _("Group %(name)s not found.") % {"name": name})
    return group


def _unknown(field: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(field, "unknown", message)])


GROUP_COLUMNS: Final = {"name": Column("name"), "claim": Column("claim")}
"""The columns by which a list of groups can be filtered."""


def group_list(*, viewer: Actor) -> QuerySet[Group]:
    """Return all groups by name, each with `size`. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.MEMBER_EDIT)
    return Group.unscoped.annotate(size=Count("people")).order_by("name", "pk")


def group_get(*, viewer: Actor, group_id: uuid.UUID) -> Group:
    """Return one group with `size`. Raises: PermissionDenied, NotFound."""
    group = group_list(viewer=viewer).filter(pk=group_id).first()
    if group is None:
        raise NotFound(_("Group not found."))
    return group


def group_people(*, viewer: Actor, group: Group) -> list[User]:
    """Return the people in a group, by name. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.MEMBER_EDIT)
    rows = GroupMember.unscoped.filter(group=group).select_related("user")
    return [row.user for row in rows.order_by("user__username", "pk")]


def service_account_list(*, viewer: Actor, tenant: Tenant) -> QuerySet[User]:
    """Return the active service accounts of a tenant, by name.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.MEMBER_EDIT, tenant)
    accounts = User.objects.filter(kind=AccountKind.SERVICE, home=tenant, is_active=True)
    return accounts.select_related("home").order_by("username", "pk")


def service_account_get(*, viewer: Actor, tenant: Tenant, name: str) -> User:
    """Return one service account by its name, with or without the suffix `@<tenant>`.

    Raises: NotFound, PermissionDenied.
    """
    full = name if "@" in name else f"{name}@{tenant.slug}"
    account = service_account_list(viewer=viewer, tenant=tenant).filter(username=full).first()
    if account is None:
        raise NotFound(_("Service account not found."))
    return account
