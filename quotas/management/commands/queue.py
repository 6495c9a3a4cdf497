"""`allotment queue add|list`: queues of a workspace from a shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from clusters.models import Cell, Flavor
from quotas.selectors.queues.queue import queue_list
from quotas.selectors.queues.queue_flavors import find_flavors_named, get_cell_named, queue_flavor_names
from quotas.services.queues.queue import queue_create
from tenants.management.results import USAGE
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import User
from tenants.selectors.tenant import workspace_get


class Command(VerbCommand):
    help = "Add and list the queues of a workspace"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list")
        add = verbs.add_parser("add", help="add a queue")
        listing = verbs.add_parser("list", help="list the queues of a workspace with their flavors")
        for verb in (add, listing):
            verb.add_argument("workspace", metavar="WORKSPACE", help="tenant ID (slug)")
        add.add_argument("name", metavar="NAME")
        add.add_argument(
            "--flavor", action="append", default=[], metavar="F",
            help=("FLAVOR or CLUSTER/FLAVOR in order of preference, repeatable; default: all of the "
                 "scheduling domain"),
        )  # fmt: skip
        add.add_argument("--cell", default="", metavar="NAME", help="required if there are several")
        self.common_arguments(verbs)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        workspace = workspace_get(viewer=user, slug=options["workspace"])
        cell = get_cell_named(options["cell"] or None)
        flavors = _flavors(cell, options["flavor"])
        queue = queue_create(
            acting_user=user, cell=cell, workspace=workspace, name=options["name"], flavors=flavors
        )
        names = [flavor.name for flavor in flavors]
        facts = {"workspace": workspace.slug, "name": queue.name, "flavors": names}
        place = f"queue {queue.name} of {workspace.slug}"
        return facts, f"{place} added with {', '.join(names)}; next: allotment quota apply -f FILE"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        workspace = workspace_get(viewer=user, slug=options["workspace"])
        queues = [
            (queue.name, queue.cell.name, queue_flavor_names(queue)) for queue in queue_list(user, workspace)
        ]
        items = [{"name": name, "cell": cell, "flavors": flavors} for name, cell, flavors in queues]
        rows = [[name, cell, ", ".join(flavors)] for name, cell, flavors in queues]
        return {"items": items}, table_text(("name", "cell", "flavors"), rows)


def _flavors(cell: Cell, names: list[str]) -> list[Flavor]:
    if not names:
        flavors = Flavor.unscoped.filter(cluster__cell=cell).select_related("cluster")
        found = list(flavors.order_by("cluster__name", "name"))
        if not found:
            hint = "next: allotment flavor discover CLUSTER --apply"
            message = f"scheduling domain {cell.name} has no flavors; {hint}"
            raise CommandError(message, returncode=USAGE)
        return found
    found, wrong = find_flavors_named(cell, names)
    if wrong:
        facts = ", ".join(names[index] for index in wrong)
        hint = "use CLUSTER/FLAVOR; see allotment flavor list"
        raise CommandError(f"--flavor {facts}: flavor not found or ambiguous; {hint}", returncode=USAGE)
    return found
