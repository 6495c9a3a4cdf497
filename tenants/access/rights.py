"""The rights on a tenant by user, and the source of each right."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permission_points import ROLE_PERMISSIONS, points_of
from tenants.access.permissions import Permission
from tenants.models import GroupMember, Member, Tenant, User


@dataclass(frozen=True, slots=True)
class Right:
    """One role of one user as it applies to a tenant.

    `tenant` is where the role was given, None for the platform; `group` is the group that has the role.
    """

    username: str
    role: str
    tenant: Tenant | None
    group: str
    points: frozenset[Permission]


@dataclass(frozen=True, slots=True)
class EffectiveRights:
    """A user's rights on one tenant: its roles, and each permission with the roles that give it."""

    user: User
    rights: tuple[Right, ...]

    @property
    def points(self) -> dict[Permission, tuple[Right, ...]]:
        """Return each permission of the user with the roles that give it."""
        found = {point for right in self.rights for point in right.points}
        return {p: tuple(right for right in self.rights if p in right.points) for p in sorted(found)}


def rights_on(tenant_ids: Sequence[str], *, platform: bool = False) -> dict[uuid.UUID, tuple[Right, ...]]:
    """Return the roles of users on any of these tenants, by user; two queries.

    With `platform`, roles on the platform are included.
    """
    scope = Q(tenant_id__in=tenant_ids)
    if platform:
        scope |= Q(tenant__isnull=True)
    members = Member.unscoped.filter(scope).select_related("user", "group", "tenant", "custom_role")
    rows = sorted(members, key=lambda m: (len(m.tenant.path) if m.tenant else 0, str(m.pk)))
    people = _people({m.group_id for m in rows if m.group_id})
    found: defaultdict[uuid.UUID, list[Right]] = defaultdict(list)
    for member in rows:
        points = role_points(member)
        group = member.group.name if member.group else ""
        holders = [member.user] if member.user else people.get(member.group_id, [])
        for user in holders:
            found[user.pk].append(Right(user.username, member.role_name, member.tenant, group, points))
    return {pk: tuple(rights) for pk, rights in found.items()}


def _people(group_ids: set[uuid.UUID]) -> dict[uuid.UUID | None, list[User]]:
    found: defaultdict[uuid.UUID | None, list[User]] = defaultdict(list)
    if group_ids:
        rows = GroupMember.unscoped.filter(group_id__in=group_ids).select_related("user")
        for row in rows.order_by("user__username", "user_id"):
            found[row.group_id].append(row.user)
    return found


def role_points(member: Member) -> frozenset[Permission]:
    """Return the permissions of a member's role."""
    if member.custom_role is not None:
        return points_of(member.custom_role.points)
    return ROLE_PERMISSIONS[member.role]


def effective_list(*, viewer: Actor, tenant: Tenant) -> list[EffectiveRights]:
    """Return every user who may do anything on `tenant`, by name.

    Roles of the platform are included only for a viewer who may edit members of the platform. Raises:
    NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.TENANT_VIEW, tenant)
    platform = permissions.has_permission(viewer, Permission.MEMBER_EDIT)
    found = rights_on(tenant.ancestor_ids(), platform=platform)
    users = User.objects.filter(pk__in=found).order_by("username", "pk")
    return [EffectiveRights(user, found[user.pk]) for user in users]
