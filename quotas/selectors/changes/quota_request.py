"""Reading quota requests."""

from __future__ import annotations

import uuid
from typing import Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from quotas.models import QuotaNode, QuotaRequest
from quotas.selectors.sight import quota_tenants
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

COLUMNS: Final = {
    "state": Column("state"),
    "by": Column("asker.username"),
    "queue": Column("node.queue.name"),
    "created_at": Column("created_at", ColumnKind.TIME),
    "expires_at": Column("expires_at", ColumnKind.TIME),
}
"""The columns by which a list of requests can be filtered."""
INBOX_COLUMNS: Final = {**COLUMNS, "tenant": Column("node.tenant.slug")}
"""The columns by which a list of requests of several tenants can be filtered."""


def _rows() -> QuerySet[QuotaRequest]:
    related = ("node__tenant__parent", "node__queue", "node__cell", "asker", "decided_by", "override")
    return QuotaRequest.unscoped.select_related(*related).order_by("-created_at", "-pk")


def workspace_requests(viewer: Actor, workspace: Tenant) -> QuerySet[QuotaRequest]:
    """Requests for a workspace and its queues, the latest first.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    return _rows().filter(node__tenant=workspace)


def workspace_request_get(viewer: Actor, workspace: Tenant, pk: uuid.UUID) -> QuotaRequest:
    """Return one request of a workspace. Raises: NotFound, PermissionDenied."""
    return _one(workspace_requests(viewer, workspace), pk)


def quota_requests(viewer: Actor) -> QuerySet[QuotaRequest]:
    """Requests of all tenants whose quota the viewer may see, the latest first."""
    return _rows().filter(node__tenant__in=quota_tenants(viewer))


def quota_request_get(viewer: Actor, pk: uuid.UUID) -> QuotaRequest:
    """Return one request. Raises: NotFound, also for a request of a tenant out of sight."""
    return _one(quota_requests(viewer), pk)


def request_nodes(viewer: Actor, workspace: Tenant) -> list[QuotaNode]:
    """Return the nodes for which more can be asked: the workspace's own and those of its queues.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    nodes = (
        QuotaNode.unscoped.filter(tenant=workspace)
        .exclude(queue__closed_at__isnull=False)
        .select_related("tenant__parent", "cell", "queue")
    )
    return list(nodes.order_by("cell__name", "is_queue", "queue__name", "pk"))


def _one(rows: QuerySet[QuotaRequest], pk: uuid.UUID) -> QuotaRequest:
    found = rows.filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Request not found."))
    return found
