"""Reading memberships."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from foundation.audit.audit_log import DONE
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.models import AuditRecord
from foundation.web.listing import Column
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Member, Role, Tenant, User

MEMBER_COLUMNS: Final = {"role": Column("role_name"), "name": Column("subject_name")}
"""The columns by which a list of members can be filtered."""


def membership_list(*, viewer: User) -> list[Member]:
    """Return the viewer's own memberships, also by groups, platform first, then by tenant."""
    own = Member.unscoped.filter(Q(user=viewer) | Q(group__people__user=viewer))
    rows = own.select_related("tenant", "custom_role", "group", "user")
    return sorted(rows, key=lambda member: (member.tenant is not None, str(member.tenant), str(member.pk)))


def member_list(*, viewer: Actor, tenant: Tenant | None, inherited: bool = False) -> list[Member]:
    """Return roles given on `tenant`, with `inherited` also those given above it; those of the platform for
    None.

    Ordered from the root downwards, then by name. A viewer who may see a tenant may see its members. Raises:
    NotFound, PermissionDenied.
    """
    rows = _rows(viewer, tenant)
    if tenant is not None:
        rows = rows.filter(tenant_id__in=tenant.ancestor_ids() if inherited else [tenant.pk])
    return sorted(rows, key=lambda m: (len(m.tenant.path) if m.tenant else 0, m.subject_name, str(m.pk)))


@dataclass(frozen=True, slots=True)
class MemberChange:
    """The last change of a role: the user who made it, and the time."""

    actor: str
    at: datetime


def last_changes(*, viewer: Actor, members: Collection[Member]) -> dict[uuid.UUID, MemberChange]:
    """Return the last recorded change of roles, for those whose tenant's audit log the viewer may read."""
    seen = permissions.tenants_with(viewer, Permission.AUDIT_VIEW)
    seen = seen.filter(pk__in={member.tenant_id for member in members if member.tenant_id is not None})
    records = AuditRecord.unscoped.filter(
        entity="member",
        entity_id__in=[str(member.pk) for member in members],
        tenant_id__in=seen.values("pk"),
        result=DONE,
    )
    rows = records.order_by("created_at", "pk").values_list("entity_id", "actor_name", "created_at")
    return {uuid.UUID(member): MemberChange(actor, at) for member, actor, at in rows}


def list_admins(*, viewer: Actor, tenants: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return the names of users and groups with an admin role on these tenants, for those in sight."""
    seen = permissions.tenants_with(viewer, Permission.TENANT_VIEW).filter(pk__in=tenants)
    rows = Member.unscoped.filter(tenant__in=seen.values("pk"), role=Role.ADMIN)
    found: dict[uuid.UUID, list[str]] = {}
    for tenant, user, group in rows.order_by().values_list("tenant_id", "user__username", "group__name"):
        if tenant is not None:
            found.setdefault(tenant, []).append(user or group or "")
    return {tenant: sorted(names) for tenant, names in found.items()}


def member_get(*, viewer: Actor, tenant: Tenant | None, member_id: uuid.UUID) -> Member:
    """Return one role given on `tenant`, or on the platform.

    Raises: NotFound, PermissionDenied.
    """
    member = _rows(viewer, tenant).filter(tenant=tenant, pk=member_id).first()
    if member is None:
        raise NotFound(_("Member not found."))
    return member


def _rows(viewer: Actor, tenant: Tenant | None) -> QuerySet[Member]:
    needed = Permission.MEMBER_EDIT if tenant is None else Permission.TENANT_VIEW
    permissions.require_permission(viewer, needed, tenant)
    rows = Member.unscoped.select_related("user", "group", "tenant", "custom_role__tenant")
    return rows.filter(tenant__isnull=True) if tenant is None else rows
