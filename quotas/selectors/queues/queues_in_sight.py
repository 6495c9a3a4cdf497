"""Queues of several workspaces at once, for admins of more than one workspace."""

from __future__ import annotations

from django.db.models import QuerySet

from foundation.core.actor import Actor
from quotas.models import Queue
from quotas.selectors.queues.queue_flavors import prefetch_flavors
from quotas.selectors.sight import quota_tenants
from tenants.access import permissions


def find_queues(*, viewer: Actor, text: str, limit: int) -> list[Queue]:
    """Return the queues of `visible_queues` whose name contains the text, with their workspaces."""
    found = visible_queues(viewer).filter(name__icontains=text).prefetch_related(None)
    return list(found[:limit])


def visible_queues(viewer: Actor) -> QuerySet[Queue]:
    """Return every queue whose quota the viewer may see, by workspace and name, its flavors prefetched."""
    rows = Queue.unscoped.filter(
        workspace__in=permissions.visible_workspace_ids(viewer), closed_at__isnull=True
    )
    return (
        rows.filter(workspace__in=quota_tenants(viewer), workspace__archived_at__isnull=True)
        .select_related("workspace__parent", "cell")
        .prefetch_related(prefetch_flavors())
        .order_by("workspace__name", "name", "pk")
    )
