"""Queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import is_dns_label
from foundation.sql.versions import advance_version
from quotas.models import AllocationMode, Queue, QueueFlavor, QuotaNode, Strategy
from quotas.services.queues.queue_bounds import bound_flavors
from quotas.services.quota import quota_changed, quota_node_ensure
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@transaction.atomic
def queue_create(
    *,
    acting_user: Actor,
    cell: Cell,
    workspace: Tenant,
    name: str,
    flavors: Sequence[Flavor],
    strategy: Strategy = Strategy.BEST_EFFORT,
    allocation_mode: AllocationMode = AllocationMode.DYNAMIC,
    preemption: bool = True,
) -> Queue:
    """Open a queue in a workspace, with its leaf in the cell's quota tree; flavors are tried in order.

    A queue that is opened with the workspace's permission alone borrows nothing until an admin above allows
    it.

    Raises: PermissionDenied; Invalid for a folder, a bad name or a flavor of another cell; Conflict when the
    workspace has a queue of that name.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT, workspace)
    if not workspace.is_workspace:
        message = _("%(tenant)s is a folder. Only workspaces have queues.")
        raise _wrong("workspace", "FOLDER", message % {"tenant": workspace})
    _check_name(workspace, name)
    own = all(flavor.cluster.cell_id == cell.pk for flavor in flavors)
    if not flavors or not own or len({flavor.pk for flavor in flavors}) < len(flavors):
        raise _wrong(
            "flavors",
            "REQUIRED",
            _("Select at least one pool of the queue's scheduling domain; no duplicates."),
        )
    parent = quota_node_ensure(acting_user=acting_user, cell=cell, tenant=workspace)
    node = QuotaNode.unscoped.create(cell=cell, tenant=workspace, parent=parent, is_queue=True)
    queue = Queue.unscoped.create(
        cell=cell,
        workspace=workspace,
        node=node,
        name=name,
        strategy=strategy,
        allocation_mode=allocation_mode,
        preemption=preemption,
    )
    QueueFlavor.unscoped.bulk_create(
        QueueFlavor(queue=queue, flavor=flavor, position=position) for position, flavor in enumerate(flavors)
    )
    after: dict[str, Any] = {"name": name, "flavors": [flavor.name for flavor in flavors]}
    if bound_flavors(acting_user, queue, flavors):
        after["borrowing_limit"] = 0
    audit_log.record_action(
        acting_user, "queue.create", entity="queue", entity_id=queue.pk, tenant_id=workspace.pk, after=after
    )
    quota_changed(cell.pk)
    return queue


def _check_name(workspace: Tenant, name: str) -> None:
    if not is_dns_label(name):
        message = _("Invalid queue name %(name)s. Use lowercase letters, digits and hyphens.")
        raise _wrong("name", "name", message % {"name": name})
    if Queue.unscoped.filter(workspace=workspace, name=name, closed_at__isnull=True).exists():
        message = _("Queue %(name)s already exists in workspace %(workspace)s.")
        text = message % {"workspace": workspace, "name": name}
        raise Conflict(text, code="NAME_TAKEN", errors=[FieldError("name", "taken", text)])


def _wrong(field: str, code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(field, code, message)])


@transaction.atomic
def queue_rename(*, acting_user: Actor, queue: Queue, name: str, expected: int | None = None) -> Queue:
    """Rename a queue. Its jobs stay in it; job files that name the old one are refused from then on.

    Raises: PermissionDenied; PreconditionFailed; Invalid for the name; Conflict when it is taken.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT, queue.workspace)
    before = queue.name
    advance_version(queue, expected=expected)
    if name == before:
        return queue
    _check_name(queue.workspace, name)
    queue.name = name
    queue.save(update_fields=["name"])
    audit_log.record_action(
        acting_user,
        "queue.rename",
        entity="queue",
        entity_id=queue.pk,
        tenant_id=queue.workspace_id,
        before={"name": before},
        after={"name": name},
    )
    return queue
