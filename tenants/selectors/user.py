"""Reading user accounts for their admins: search, states, roles and sign-in methods."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q, QuerySet

from foundation.core import clock
from foundation.core.actor import Actor
from foundation.web.listing import Column, ColumnKind
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import AccessKey, AccountKind, Group, GroupMember, Member, User
from tenants.selectors.account import locked_usernames, user_list

COLUMNS: Final = {
    "username": Column("username"),
    "email": Column("email"),
    "is_active": Column("is_active", ColumnKind.FLAG),
    "last_login": Column("last_login", ColumnKind.TIME),
}
"""The columns by which a list of users can be filtered."""
USER_SORTS: Final = ("username", "email", "last_login", "date_joined")


class UserState(StrEnum):
    """The state of an account. A locked account is active: only its sign-in is locked."""

    ACTIVE = "active"
    INVITED = "invited"
    ONE_TIME = "one-time"
    LOCKED = "locked"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class UserOverview:
    """An account with the data that its admin needs. `roles` are direct and by groups."""

    user: User
    state: UserState
    providers: Sequence[str] = ()
    roles: Sequence[Member] = ()
    groups: Sequence[Group] = field(default_factory=tuple)
    keys: int = 0

    @property
    def expired(self) -> bool:
        """Return whether the invitation or one-time password can't be used any more."""
        return self.user.password_expired


def user_query(
    *, viewer: Actor, text: str = "", state: UserState | None = None, sort: str = "username"
) -> QuerySet[User]:
    """Return user accounts whose name or email contains `text`, in a state. Raises: PermissionDenied."""
    rows = user_list(viewer=viewer)
    if text:
        rows = rows.filter(Q(username__icontains=text) | Q(email__icontains=text))
    if state is not None:
        rows = rows.filter(_condition(state))
    return rows.order_by(sort if sort.lstrip("-") in USER_SORTS else "username", "pk")


def _condition(state: UserState) -> Q:
    invited = Q(must_change_password=True, password__startswith=UNUSABLE_PASSWORD_PREFIX)
    locked = Q(username__in=locked_usernames())
    live = Q(is_active=True)
    return {
        UserState.DISABLED: ~live,
        UserState.INVITED: live & invited,
        UserState.LOCKED: live & ~invited & locked,
        UserState.ONE_TIME: live & ~invited & ~locked & Q(must_change_password=True),
        UserState.ACTIVE: live & ~locked & Q(must_change_password=False),
    }[state]


def find_user_state(user: User, locked: frozenset[str]) -> UserState:
    """Return the state of one account; `locked` as of `locked_usernames`."""
    if not user.is_active:
        return UserState.DISABLED
    if user.is_invited:
        return UserState.INVITED
    if user.username in locked:
        return UserState.LOCKED
    return UserState.ONE_TIME if user.must_change_password else UserState.ACTIVE


def user_overviews(*, viewer: Actor, users: Iterable[User]) -> list[UserOverview]:
    """Describe accounts in five queries, whatever their number. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.MEMBER_EDIT)
    shown, locked = list(users), locked_usernames()
    ids = [user.pk for user in shown]
    groups, by_group = _groups(ids)
    roles: defaultdict[uuid.UUID, list[Member]] = defaultdict(list)
    rows = Member.unscoped.filter(Q(user__in=ids) | Q(group__in=list(by_group)))
    for row in rows.select_related("tenant", "custom_role", "group").order_by("tenant__path", "pk"):
        owners = [row.user_id] if row.user_id else by_group.get(row.group_id, [])
        for pk in owners:
            if pk is not None:
                roles[pk].append(row)
    providers: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for pk, provider in SocialAccount.objects.filter(user__in=ids).values_list("user", "provider"):
        providers[pk].append(provider)
    keys = _key_numbers(ids)
    return [
        UserOverview(
            user,
            find_user_state(user, locked),
            providers[user.pk],
            roles[user.pk],
            groups[user.pk],
            keys.get(user.pk, 0),
        )
        for user in shown
    ]


def _groups(
    ids: Sequence[uuid.UUID],
) -> tuple[Mapping[uuid.UUID, list[Group]], Mapping[uuid.UUID | None, list[uuid.UUID]]]:
    """Return the groups of each account, and the accounts of each group."""
    of: defaultdict[uuid.UUID, list[Group]] = defaultdict(list)
    by_group: defaultdict[uuid.UUID | None, list[uuid.UUID]] = defaultdict(list)
    rows = GroupMember.unscoped.filter(user__in=ids).select_related("group").order_by("group__name")
    for row in rows:
        of[row.user_id].append(row.group)
        by_group[row.group_id].append(row.user_id)
    return of, by_group


def _key_numbers(ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, int]:
    live = Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now())
    found: defaultdict[uuid.UUID, int] = defaultdict(int)
    keys = AccessKey.unscoped.filter(live, user__in=ids, revoked_at__isnull=True)
    for pk in keys.values_list("user_id", flat=True):
        found[pk] += 1
    return found


def people_find(*, viewer: Actor, text: str, limit: int = 20) -> list[User]:
    """Find users whose name or email contains `text`, by name.

    A viewer who manages members of the platform finds every active account. Other viewers find the users of
    the tenants whose members they may see, and themselves.
    """
    rows = User.objects.filter(kind=AccountKind.PERSON, is_active=True)
    if text:
        rows = rows.filter(Q(username__icontains=text) | Q(email__icontains=text))
    if not permissions.has_permission(viewer, Permission.MEMBER_EDIT):
        tenants = permissions.visible_tenants(viewer).values("pk")
        direct = Member.unscoped.filter(tenant__in=tenants, user__isnull=False).values("user")
        by_group = GroupMember.unscoped.filter(group__memberships__tenant__in=tenants).values("user")
        rows = rows.filter(Q(pk__in=direct) | Q(pk__in=by_group) | Q(pk=viewer.pk))
    return list(rows.order_by("username")[:limit])


def find_named_groups(*, viewer: Actor, text: str, limit: int = 20) -> list[str]:
    """Find names of groups that contain `text`.

    A viewer who manages members of the platform finds all groups, other viewers those with a role on a tenant
    in their sight.
    """
    rows = Group.unscoped.filter(name__icontains=text) if text else Group.unscoped.all()
    if not permissions.has_permission(viewer, Permission.MEMBER_EDIT):
        rows = rows.filter(memberships__tenant__in=permissions.visible_tenants(viewer)).distinct()
    return list(rows.order_by("name").values_list("name", flat=True)[:limit])
