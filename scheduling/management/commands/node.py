"""`allotment node list|cordon|uncordon|drain`: manage the nodes of the clusters from a shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from clusters.api.serializers import NodeSerializer
from clusters.models import Node
from clusters.selectors.node import NodeFilter, get_open_cordon, node_get, node_list
from clusters.services.node_cordon import node_cordon, node_uncordon
from scheduling.selectors.allocations.node_drain import DrainPreview, preview_drain
from scheduling.services.node_drain import node_drain
from tenants.management.verbs import VerbCommand, confirm_by_name, table_text
from tenants.models import User


class Command(VerbCommand):
    help = "List, cordon, uncordon and drain nodes"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|cordon|uncordon|drain")
        listing = verbs.add_parser("list", help="list nodes, by cluster and name")
        listing.add_argument("--cordoned", action="store_true", help="only cordoned nodes")
        for verb, text in (
            ("cordon", "place no new pods on a node; running pods are not affected"),
            ("uncordon", "place new pods on a node again"),
            ("drain", "cordon a node, and evict its jobs into their queues"),
        ):
            verbs.add_parser(verb, help=text).add_argument("name", metavar="NODE")
        for verb in ("cordon", "drain"):
            verbs.choices[verb].add_argument("--reason", default="", help="shown on the node's page")
        verbs.choices["drain"].add_argument("--yes", action="store_true", help="skip the confirmation")
        for chosen in verbs.choices.values():
            chosen.add_argument("--cluster", default="", metavar="NAME", help="cluster of the node")
        self.common_arguments(verbs)

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        only_cordoned = True if options["cordoned"] else None
        filters = NodeFilter(cluster=options["cluster"], cordoned=only_cordoned)
        nodes = list(node_list(viewer=user, filters=filters))
        rows = [
            (
                *(node.cluster.name, node.name, node.flavor.name if node.flavor else ""),
                *("yes" if node.ready else "no", _describe_scheduling(node), str(len(node.devices.all()))),
            )
            for node in nodes
        ]
        columns = ("cluster", "name", "pool", "ready", "scheduling", "gpus")
        return {"items": NodeSerializer(nodes, many=True).data}, table_text(columns, rows)

    def _cordon(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        node = _read_node(user, options)
        node_cordon(acting_user=user, node=node, reason=options["reason"])
        return _read_result(user, node)

    def _uncordon(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        node = _read_node(user, options)
        node_uncordon(acting_user=user, node=node)
        return _read_result(user, node)

    def _drain(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        node = _read_node(user, options)
        if not options["yes"]:
            found = preview_drain(viewer=user, node=node)
            self.stderr.write(_describe_drain(found))
            confirm_by_name(f"Drain node {node.name}?", node.name)
        node_drain(acting_user=user, node=node, reason=options["reason"])
        return _read_result(user, node)


def _read_node(user: User, options: dict[str, Any]) -> Node:
    return node_get(viewer=user, name=options["name"], cluster=options["cluster"])


def _read_result(user: User, node: Node) -> tuple[Any, str]:
    found = node_get(viewer=user, name=node.name, cluster=node.cluster.name)
    return NodeSerializer(found).data, f"node {found.name}: {_describe_scheduling(found)}"


def _describe_scheduling(node: Node) -> str:
    """Return whether new pods are placed on a node, and what was requested and is not done yet."""
    row = get_open_cordon(node)
    if row is not None and row.is_pending:
        word = "uncordon" if row.schedulable else "drain" if row.drain else "cordon"
        return f"{word} requested"
    if row is not None and row.is_draining:
        return "draining"
    if row is not None and row.drained_at is not None:
        return "drained"
    return "cordoned" if node.cordoned else "schedulable"


def _describe_drain(found: DrainPreview) -> str:
    """Return what a drain evicts, what is lost, and what stays."""
    lines = [f"Jobs to be evicted: {len(found.jobs)} ({found.lost_gpu_hours:.2f} GPU-hours of work lost)"]
    for one in found.jobs:
        lost = "not started" if one.lost_gpu_hours is None else f"{one.lost_gpu_hours:.2f} GPU-hours lost"
        lines.append(f"  {one.job.workspace.slug}/{one.job.name} ({lost})")
    if found.foreign:
        names = ", ".join(f"{pod.namespace}/{pod.name}" for pod in found.foreign)
        lines.append(f"Pods not managed by Allotment, which are not evicted: {names}")
    return "\n".join(lines)
