"""Reading the audit: of the platform for its auditors, of a tenant for its admins."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q, QuerySet

from foundation.core.actor import Actor
from foundation.models import AuditRecord
from foundation.sql import keyset
from foundation.web.listing import Column, ColumnCondition, ColumnKind, filter_rows
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

COLUMNS: Final = {
    "id": Column("id", ColumnKind.ID),
    "at": Column("created_at", ColumnKind.TIME),
    "actor": Column("actor_name"),
    "actor_id": Column("actor_id", ColumnKind.ID),
    "action": Column("action"),
    "entity": Column("entity"),
    "entity_id": Column("entity_id"),
    "tenant_id": Column("tenant_id", ColumnKind.ID),
    "result": Column("result"),
    "address": Column("address"),
    "request_id": Column("request_id"),
}
"""The columns by which the audit can be filtered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The filters: from `since` up to and without `until`; `text` anywhere in user, action or object."""

    since: datetime | None = None
    until: datetime | None = None
    text: str = ""
    conditions: Sequence[ColumnCondition] = ()


def audit_query(
    *, viewer: Actor, tenant: Tenant | None = None, filters: AuditFilter = AuditFilter()
) -> QuerySet[AuditRecord]:
    """Return the matching records of one tenant, or of the whole platform.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.AUDIT_VIEW, tenant)
    records: QuerySet[AuditRecord] = filter_rows(AuditRecord.unscoped.all(), filters.conditions)
    if tenant is not None:
        records = records.filter(tenant_id=tenant.pk)
    if filters.since is not None:
        records = records.filter(created_at__gte=filters.since)
    if filters.until is not None:
        records = records.filter(created_at__lt=filters.until)
    if filters.text:
        found = (Q(**{f"{name}__icontains": filters.text}) for name in ("actor_name", "action", "entity_id"))
        records = records.filter(next(found) | next(found) | next(found))
    return records


def audit_page(
    records: QuerySet[AuditRecord], *, cursor: str | None, limit: int
) -> tuple[list[AuditRecord], str | None]:
    """Return the next records, newest first, and the cursor after them. Raises: Invalid for a bad cursor."""
    source = AuditRecord.unscoped.all() if records.query.has_filters() else None
    return keyset.read_page(records, sort="-created_at", cursor=cursor, limit=limit, source=source)


def tenant_names(records: Sequence[AuditRecord]) -> dict[uuid.UUID | None, str]:
    """Return the names of the tenants that records are about, by id; the viewer may read these records."""
    wanted = {record.tenant_id for record in records if record.tenant_id is not None}
    return dict(Tenant.unscoped.filter(pk__in=wanted).values_list("pk", "name"))
