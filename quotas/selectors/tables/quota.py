"""The quota of a workspace and its queues: one row per queue, flavor and resource."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Sum

from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Queue, Quota, QuotaNode
from quotas.selectors.queues.queue import queue_list
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import QuotaTable
from quotas.tree.limits import Amount, add_amounts
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def workspace_quota(
    viewer: Actor, workspace: Tenant, resources: Collection[Resource] = tuple(Resource)
) -> list[QuotaRow]:
    """Return the rows of the workspace, then of its queues by name, cell by cell; of some resources when
    given.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    queues = queue_list(viewer, workspace)
    own = list(QuotaNode.unscoped.filter(tenant=workspace, is_queue=False).order_by("cell__name"))
    rows: list[QuotaRow] = []
    for cell_id in sorted({node.cell_id for node in own} | {queue.cell_id for queue in queues}):
        names = {node.pk: "" for node in own if node.cell_id == cell_id}
        names |= {queue.node_id: queue.name for queue in queues if queue.cell_id == cell_id}
        for of in QuotaTable(cell_id, resources=resources).compute_rows(names).values():
            rows += of
    return rows


def sum_workspace_quota(workspace: Tenant, resource: Resource) -> tuple[Amount, int]:
    """Return the nominal quota of a workspace and what it reserves, of all pools together.

    The caller has checked the permission.
    """
    of_workspace = {"node__tenant": workspace, "resource": resource.value}
    nominals = Quota.unscoped.filter(**of_workspace).values_list("own_nominal", flat=True)
    reserved = LedgerEntry.unscoped.filter(**of_workspace).aggregate(total=Sum("reserved"))["total"]
    total: Amount = 0
    for nominal in nominals:
        total = add_amounts(total, nominal)
    return total, reserved or 0


def queue_quota(
    viewer: Actor,
    queue: Queue,
    *,
    flavors: Collection[uuid.UUID] | None = None,
    resources: Collection[Resource] = tuple(Resource),
) -> list[QuotaRow]:
    """Return the rows of one queue; of some flavors and resources when given.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, queue.workspace)
    table = QuotaTable(queue.cell_id, flavors=flavors, resources=resources)
    return table.compute_rows({queue.node_id: queue.name})[queue.node_id]
