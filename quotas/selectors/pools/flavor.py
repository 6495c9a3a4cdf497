"""Flavors by the names that forms and quota files use.

A flavor does not belong to a tenant: the caller has checked that the viewer may see a quota of its cell.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Q, QuerySet

from clusters.models import Flavor
from quotas.models import Queue, QueueFlavor, QuotaNode


def list_flavors(cells: Collection[uuid.UUID] | None = None) -> list[Flavor]:
    """Return the flavors of some cells, or of all, by name, each with its cluster."""
    rows = _with_cluster()
    if cells is not None:
        rows = rows.filter(cluster__cell__in=cells)
    return list(rows.order_by("name", "pk"))


def usable_flavors(node: QuotaNode) -> list[Flavor]:
    """Return the flavors by name that a queue, or any queue at or below a tenant, may use.

    Where there is no queue yet these are all of the cell. `node.tenant` should be selected.
    """
    queues = Queue.unscoped.filter(cell=node.cell_id, closed_at__isnull=True)
    queues = queues.filter(Q(node=node) if node.is_queue else Q(workspace__path__startswith=node.tenant.path))
    named = QueueFlavor.unscoped.filter(queue__in=queues).values("flavor")
    found = list(_with_cluster().filter(pk__in=named).order_by("name", "pk"))
    return found or list_flavors([node.cell_id])


def find_flavor(cell_id: uuid.UUID, pk: uuid.UUID) -> Flavor | None:
    """Return a flavor of a cell by id, None where the cell has none of that id."""
    return _with_cluster().filter(cluster__cell_id=cell_id, pk=pk).first()


def find_flavor_named(cell_id: uuid.UUID, cluster: str, name: str) -> Flavor | None:
    """Return a flavor of a cell by the names of its cluster and its own, None where there is none."""
    return _with_cluster().filter(cluster__cell_id=cell_id, cluster__name=cluster, name=name).first()


def find_queue_flavor(queue_id: uuid.UUID, name: str) -> Flavor | None:
    """Return a flavor that a queue may use by its name, None where it may use none of that name."""
    return _with_cluster().filter(queues=queue_id, name=name).first()


def _with_cluster() -> QuerySet[Flavor]:
    return Flavor.unscoped.select_related("cluster")
