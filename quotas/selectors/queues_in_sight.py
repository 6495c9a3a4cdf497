"""Queues of several workspaces at once, for who looks after them."""

from __future__ import annotations

from foundation.core.actor import Actor
from quotas.models import Queue
from quotas.selectors.queue_flavors import prefetch_flavors
from tenants.access import permissions
from tenants.access.permissions import Permission


def visible_queues(viewer: Actor) -> list[Queue]:
    """Every queue whose quota the viewer may look at, by workspace and name, with its flavors at hand."""
    rows = Queue.unscoped.filter(workspace__in=permissions.visible_workspace_ids(viewer))
    rows = (
        rows.filter(closed_at__isnull=True, workspace__archived_at__isnull=True)
        .select_related("workspace__parent", "cell")
        .prefetch_related(prefetch_flavors())
    )
    found = rows.order_by("workspace__name", "name", "pk")
    return [
        queue for queue in found if permissions.has_permission(viewer, Permission.QUOTA_VIEW, queue.workspace)
    ]
