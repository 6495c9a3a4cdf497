"""Finding cells and flavors by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.core.errors import FieldError, Invalid
from quotas.models import Queue, QueueFlavor


def get_cell_named(name: str | None) -> Cell:
    """Return a cell by name, or the only one.

    Raises: Invalid.
    """
    cells = Cell.unscoped.order_by("name", "pk")
    found = list(cells.filter(name=name) if name else cells[:2])
    if len(found) != 1:
        message = (
            _("Specify a scheduling domain.") if found else _("No scheduling domain. Run allotment init.")
        )
        if name:
            message = _("Scheduling domain not found.")
        raise Invalid(message, errors=[FieldError("cell", "UNKNOWN", message)])
    return found[0]


def find_flavors_named(cell: Cell, names: Sequence[str]) -> tuple[list[Flavor], list[int]]:
    """Return flavors of a cell by `flavor` or `cluster/flavor`, and the places of names that match no single
    one.
    """
    by_name: dict[str, list[Flavor]] = {}
    flavors = Flavor.unscoped.filter(cluster__cell=cell).select_related("cluster")
    for flavor in flavors.order_by("cluster__name", "name", "pk"):
        by_name.setdefault(flavor.name, []).append(flavor)
        by_name.setdefault(f"{flavor.cluster.name}/{flavor.name}", []).append(flavor)
    wrong = [index for index, name in enumerate(names) if len(by_name.get(name, ())) != 1]
    return [by_name[name][0] for index, name in enumerate(names) if index not in wrong], wrong


def list_flavor_names(cell: Cell) -> list[str]:
    """Return the names of a cell's flavors as `find_flavors_named` takes them.

    The caller has checked that the viewer may see a quota of the cell.
    """
    rows = Flavor.unscoped.filter(cluster__cell=cell).order_by("name", "cluster__name", "pk")
    named = list(rows.values_list("cluster__name", "name"))
    counts = Counter(name for _cluster, name in named)
    return [name if counts[name] == 1 else f"{cluster}/{name}" for cluster, name in named]


def prefetch_flavors() -> Prefetch[str, QuerySet[QueueFlavor], str]:
    """Return a prefetch of the flavors of queues in their order of trying, each with `ambiguous`: whether
    another cluster of the cell has a flavor of that name, too.
    """
    return Prefetch("queue_flavors", queryset=_rows().all())


@lru_cache(maxsize=1)
def _rows() -> QuerySet[QueueFlavor]:
    """Return the query of all rows, built once: resolving its subquery takes longer than running it."""
    same = Flavor.unscoped.filter(
        name=OuterRef("flavor__name"), cluster__cell=OuterRef("flavor__cluster__cell")
    ).exclude(pk=OuterRef("flavor"))
    rows = QueueFlavor.unscoped.select_related("flavor__cluster").annotate(ambiguous=Exists(same))
    return rows.order_by("position", "pk")


def queue_flavor_names(queue: Queue) -> list[str]:
    """Return the flavors of a queue that was read with `prefetch_flavors`, as `find_flavors_named` takes
    them.
    """
    rows: list[Any] = list(queue.queue_flavors.all())
    return [
        f"{row.flavor.cluster.name}/{row.flavor.name}" if row.ambiguous else row.flavor.name for row in rows
    ]
