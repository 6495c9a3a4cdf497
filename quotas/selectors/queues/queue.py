"""Reading queues on behalf of a viewer."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from quotas.models import Queue
from quotas.selectors.queues.queue_flavors import prefetch_flavors
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

COLUMNS: Final = {
    "name": Column("name"),
    "cell": Column("cell.name"),
    "strategy": Column("strategy"),
    "stop_policy": Column("stop_policy"),
    "allocation_mode": Column("allocation_mode"),
    "preemption": Column("preemption", ColumnKind.FLAG),
    "backfill": Column("backfill", ColumnKind.FLAG),
}
"""The columns by which a list of queues can be filtered."""


def queue_list(viewer: Actor, workspace: Tenant) -> list[Queue]:
    """Return the queues of a workspace by name, with their flavors in order (`queue_flavors`) prefetched.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    queues = Queue.unscoped.filter(workspace=workspace, closed_at__isnull=True).select_related("cell", "node")
    return list(queues.prefetch_related(prefetch_flavors()).order_by("name", "pk"))


def queue_get(viewer: Actor, workspace: Tenant, name: str) -> Queue:
    """Return one queue of a workspace.

    Raises: NotFound, PermissionDenied.
    """
    for queue in queue_list(viewer, workspace):
        if queue.name == name:
            return queue
    raise NotFound(_("Queue %(name)s not found.") % {"name": name})
