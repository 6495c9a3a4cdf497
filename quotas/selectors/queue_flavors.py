"""Finding cells and flavors by the names that people write."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.errors import FieldError, Invalid


def cell_named(name: str | None) -> Cell:
    """A cell by name, or the only one.

    Raises: Invalid.
    """
    cells = Cell.unscoped.order_by("name", "pk")
    found = list(cells.filter(name=name) if name else cells[:2])
    if len(found) != 1:
        message = _("Name one of the cells.") if not name else _("There is no cell of that name.")
        raise Invalid(message, errors=[FieldError("cell", "UNKNOWN", message)])
    return found[0]


def flavors_named(cell: Cell, names: Sequence[str]) -> tuple[list[Flavor], list[int]]:
    """Flavors of a cell by `flavor` or `cluster/flavor`, and the places of names that mean no single one."""
    by_name: dict[str, list[Flavor]] = {}
    flavors = Flavor.unscoped.filter(cluster__cell=cell).select_related("cluster")
    for flavor in flavors.order_by("cluster__name", "name", "pk"):
        by_name.setdefault(flavor.name, []).append(flavor)
        by_name.setdefault(f"{flavor.cluster.name}/{flavor.name}", []).append(flavor)
    wrong = [index for index, name in enumerate(names) if len(by_name.get(name, ())) != 1]
    return [by_name[name][0] for index, name in enumerate(names) if index not in wrong], wrong
