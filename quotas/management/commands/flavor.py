"""`allotment flavor discover|add|list|remove`: pools of equal nodes from a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from clusters.models import GpuMode
from clusters.selectors.flavor import cluster_get, flavor_get, flavor_list
from clusters.services.flavor import FlavorPlan, flavor_add, flavor_remove, flavors_found
from foundation.core.errors import Conflict
from quotas.services.pool_quota import NodeResources, RootQuota, root_quota_cover
from quotas.services.quota_plan import PlannedQuota
from quotas.texts.amounts import format_amount
from tenants.management.results import FAILED, USAGE
from tenants.management.verbs import VerbCommand, confirm_by_name, table_text
from tenants.models import User


class Command(VerbCommand):
    help = "Manage resource flavors (GPU pools)"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="discover|add|list|remove")
        find = verbs.add_parser("discover", help="propose flavors from node labels")
        find.add_argument("cluster", metavar="CLUSTER")
        find.add_argument("--apply", action="store_true", help="add the proposed flavors")
        find.add_argument(
            "--quota", action="store_true",
            help=("with --apply: raise the root tenant's quota to the capacity of the cluster's "
                 "pools"),
        )  # fmt: skip
        find.add_argument(
            "--node-resources", choices=[choice.value for choice in NodeResources],
            help="with --quota: CPU and memory; default: unlimited where not set yet",
        )  # fmt: skip
        add = verbs.add_parser("add", help="add a flavor")
        add.add_argument("cluster", metavar="CLUSTER")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--selector", action="append", default=[], metavar="LABEL=VALUE", required=True)
        add.add_argument("--model", default="", help="GPU model")
        add.add_argument("--card-memory", type=int, default=0, metavar="MIB")
        add.add_argument("--mode", choices=GpuMode.values, default=GpuMode.WHOLE.value)
        add.add_argument("--force", action="store_true", help="allow a flavor without nodes")
        remove = verbs.add_parser("remove", help="remove a flavor without queues and jobs")
        remove.add_argument("cluster", metavar="CLUSTER")
        remove.add_argument("name", metavar="NAME")
        remove.add_argument("--yes", action="store_true", help="skip the confirmation")
        verbs.add_parser("list", help="list flavors with their nodes and GPUs")
        self.common_arguments(verbs)

    def _discover(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        if not options["apply"] and (options["quota"] or options["node_resources"]):
            raise CommandError("--quota and --node-resources belong to --apply", returncode=USAGE)
        cluster = cluster_get(viewer=user, name=options["cluster"])
        root: RootQuota | None = None
        with transaction.atomic():
            plans = flavors_found(acting_user=user, cluster=cluster)
            if options["apply"]:
                for plan in plans:
                    flavor_add(acting_user=user, cluster=cluster, plan=plan)
            if options["quota"]:
                chosen = options["node_resources"]
                root = root_quota_cover(
                    acting_user=user,
                    cluster=cluster,
                    node_resources=NodeResources(chosen) if chosen else None,
                )
        result = {"applied": options["apply"], "items": [_plan_facts(plan) for plan in plans]}
        text = _plans_text(plans)
        if root is not None:
            result["quota"] = {"tenant": root.tenant, "changes": [_change(one) for one in root.changes]}
            text += _quota_text(root)
        return result, text + _next(options, plans)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["cluster"])
        plan = FlavorPlan(
            name=options["name"],
            card_model=options["model"],
            card_memory_mib=options["card_memory"],
            gpu_mode=GpuMode(options["mode"]),
            node_selector=dict(_label(text) for text in options["selector"]),
        )
        try:
            flavor = flavor_add(acting_user=user, cluster=cluster, plan=plan, may_be_empty=options["force"])
        except Conflict as error:
            if error.code != "NO_NODES":
                raise
            message = f"{error.detail} Nothing was added; --force adds the flavor all the same."
            raise CommandError(message, returncode=FAILED) from error
        nodes = flavor.nodes.count()
        return {
            **_plan_facts(plan),
            "nodes": nodes,
        }, f"flavor {flavor.name} added; {nodes} nodes belong to it"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        items = [asdict(row) for row in flavor_list(viewer=user)]
        columns = ("cluster", "name", "card_model", "gpu_mode", "nodes", "cards")
        rows = [[str(item[column]) for column in columns] for item in items]
        return {"items": items}, table_text(columns, rows)

    def _remove(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        flavor = flavor_get(viewer=user, cluster=options["cluster"], name=options["name"])
        names = {"cluster": flavor.cluster.name, "name": flavor.name}
        if not options["yes"]:
            confirm_by_name(
                f"Remove flavor {flavor.name} of {flavor.cluster.name}, with its quota?", flavor.name
            )
        flavor_remove(acting_user=user, flavor=flavor)
        return names, f"flavor {names['name']} of cluster {names['cluster']} removed"


def _plans_text(plans: Sequence[FlavorPlan]) -> str:
    if not plans:
        return "every node with GPUs and a product label has a flavor\n"
    columns = ("name", "card_model", "card_memory_mib", "gpu_mode", "nodes", "cards")
    return table_text(columns, [[str(getattr(plan, column)) for column in columns] for plan in plans])


def _quota_text(root: RootQuota) -> str:
    if not root.changes:
        return f"{root.tenant} already has the quota of all pools of the cluster\n"
    rows = [
        [
            change.flavor.name,
            change.resource.value,
            format_amount(change.resource, change.before.nominal),
            format_amount(change.resource, change.after.nominal),
        ]
        for change in root.changes
    ]
    return f"quota of {root.tenant}:\n{table_text(('flavor', 'resource', 'before', 'now'), rows)}"


def _change(change: PlannedQuota) -> dict[str, Any]:
    return {
        "flavor": change.flavor.name,
        "resource": change.resource.value,
        "before": change.before.nominal,
        "after": change.after.nominal,
    }


def _next(options: dict[str, Any], plans: Sequence[FlavorPlan]) -> str:
    if options["quota"]:
        return (
            "next: allotment tenant add TEAM, allotment queue add TEAM default, allotment quota apply -f FILE"
        )
    return f"next: allotment flavor discover {options['cluster']} --apply --quota" if plans else ""


def _label(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not label or not equals:
        raise CommandError(f"--selector {text}: use LABEL=VALUE", returncode=USAGE)
    return label, value


def _plan_facts(plan: FlavorPlan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "card_model": plan.card_model,
        "card_memory_mib": plan.card_memory_mib,
        "gpu_mode": plan.gpu_mode.value,
        "node_selector": dict(plan.node_selector),
        "nodes": plan.nodes,
        "cards": plan.cards,
    }
