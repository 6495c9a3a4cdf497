"""`allotment flavor discover|add|list`: pools of equal nodes from a shell."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from clusters.models import GpuMode
from clusters.selectors.flavor import cluster_get, flavor_list
from clusters.services.flavor import FlavorPlan, flavor_add, flavors_found
from tenants.management.results import USAGE
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import User


class Command(VerbCommand):
    help = "Find, add and list flavors: pools of nodes with the same cards"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="discover|add|list")
        find = verbs.add_parser("discover", help="what the labels of a cluster's nodes tell")
        find.add_argument("cluster", metavar="CLUSTER")
        find.add_argument("--apply", action="store_true", help="add what was found")
        add = verbs.add_parser("add", help="a flavor by hand")
        add.add_argument("cluster", metavar="CLUSTER")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--selector", action="append", default=[], metavar="LABEL=VALUE", required=True)
        add.add_argument("--model", default="", help="of its cards")
        add.add_argument("--card-memory", type=int, default=0, metavar="MIB")
        add.add_argument("--mode", choices=GpuMode.values, default=GpuMode.WHOLE.value)
        verbs.add_parser("list", help="all flavors with their nodes and cards")
        self.common_arguments(verbs)

    def _discover(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["cluster"])
        plans = flavors_found(acting_user=user, cluster=cluster)
        if options["apply"]:
            for plan in plans:
                flavor_add(acting_user=user, cluster=cluster, plan=plan)
        result = {"applied": options["apply"], "items": [_told(plan) for plan in plans]}
        if not plans:
            return result, "every node with cards and a product label has a flavor"
        columns = ("name", "card_model", "card_memory_mib", "gpu_mode", "nodes", "cards")
        text = table_text(columns, [[str(getattr(plan, column)) for column in columns] for plan in plans])
        return result, text + ("" if options["apply"] else "add them with --apply\n")

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["cluster"])
        plan = FlavorPlan(
            name=options["name"],
            card_model=options["model"],
            card_memory_mib=options["card_memory"],
            gpu_mode=GpuMode(options["mode"]),
            node_selector=dict(_label(text) for text in options["selector"]),
        )
        flavor = flavor_add(acting_user=user, cluster=cluster, plan=plan)
        nodes = flavor.nodes.count()
        return {**_told(plan), "nodes": nodes}, f"flavor {flavor.name} added; {nodes} nodes belong to it"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        items = [asdict(row) for row in flavor_list(viewer=user)]
        columns = ("cluster", "name", "card_model", "gpu_mode", "nodes", "cards")
        rows = [[str(item[column]) for column in columns] for item in items]
        return {"items": items}, table_text(columns, rows)


def _label(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not label or not equals:
        raise CommandError(f"--selector {text}: write LABEL=VALUE", returncode=USAGE)
    return label, value


def _told(plan: FlavorPlan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "card_model": plan.card_model,
        "card_memory_mib": plan.card_memory_mib,
        "gpu_mode": plan.gpu_mode.value,
        "node_selector": dict(plan.node_selector),
        "nodes": plan.nodes,
        "cards": plan.cards,
    }
