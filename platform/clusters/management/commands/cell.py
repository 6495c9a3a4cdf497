"""`allotment cell add|list|set`: the cells of the platform from a shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from clusters.models import Sharing
from clusters.selectors.cell import cell_get, cell_list
from clusters.services.cell import cell_add, cell_set
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import User


class Command(VerbCommand):
    help = "Manage scheduling domains, each with its own quota tree, clusters and scheduling cycles"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|set")
        verbs.add_parser("add", help="add a scheduling domain").add_argument("name", metavar="NAME")
        verbs.add_parser("list", help="list scheduling domains and their number of clusters")
        change = verbs.add_parser("set", help="set how a scheduling domain shares unused quota")
        change.add_argument("name", metavar="NAME")
        change.add_argument(
            "--sharing",
            choices=Sharing.values,
            required=True,
            help="fair: the tenant with the lowest share borrows first; classical: by priority, then age",
        )
        self.common_arguments(verbs)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cell = cell_add(acting_user=user, name=options["name"])
        return {
            "name": cell.name
        }, f"cell {cell.name} added; next: allotment cluster add NAME --cell {cell.name}"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cells = cell_list(viewer=user)
        items = [
            {"name": cell.name, "clusters": len(cell.clusters.all()), "sharing": cell.sharing}
            for cell in cells
        ]
        rows = [[str(value) for value in item.values()] for item in items]
        return {"items": items}, table_text(("name", "clusters", "sharing"), rows)

    def _set(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        found = cell_get(viewer=user, name=options["name"])
        cell = cell_set(acting_user=user, cell=found, sharing=Sharing(options["sharing"]))
        return {"name": cell.name, "sharing": cell.sharing}, f"cell {cell.name} shares: {cell.sharing}"
