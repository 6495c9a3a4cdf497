"""`allotment cluster add|list|set|sync|take-over|remove`: the clusters of the platform from a shell."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from clusters.api.serializers import ClusterSerializer
from clusters.hooks.restarts import RestartingJob
from clusters.models import BackendKind, Cell, Cluster
from clusters.selectors.flavor import cluster_get
from clusters.selectors.node import cluster_list
from clusters.services.cluster import (
    cluster_add,
    cluster_reconnect,
    cluster_remove,
    cluster_set,
    cluster_sync,
)
from clusters.services.ownership import (
    cluster_owner,
    cluster_restarting,
    cluster_take_over,
    describe_owner,
)
from tenants.management.results import FAILED, USAGE
from tenants.management.verbs import VerbCommand, confirm_by_name, table_text
from tenants.models import User

_BACKENDS: Final = [BackendKind.KUBERNETES.value, BackendKind.KUEUE.value]
_SHOWN: Final = 20
_CONNECTION: Final = {
    "path": "the kubeconfig file",
    "context": "kubeconfig context; default: the current one",
    "server": "address of the API server",
    "token_file": "file with the token, read again for every call",
    "certificate_file": "file with the API server's authority",
}


class Command(VerbCommand):
    help = "Manage clusters"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(
            dest="verb", required=True, metavar="add|list|set|sync|take-over|remove"
        )
        add = verbs.add_parser("add", help="add a Kubernetes cluster (verifies the connection)")
        add.add_argument("name", metavar="NAME")
        add.add_argument(
            "--backend",
            choices=_BACKENDS,
            default=BackendKind.KUBERNETES.value,
            help="scheduler that admits jobs: Allotment, or Kueue in the cluster",
        )
        _connection_arguments(add, kind="kubeconfig", unset="")
        add.add_argument("--cell", default="", metavar="NAME", help="required if there are several")
        verbs.add_parser("list", help="list clusters and their last status")
        for verb, text in (("sync", "read nodes and GPUs now"), ("remove", "forget it; nothing is stopped")):
            verbs.add_parser(verb, help=text).add_argument("name", metavar="NAME")
        add.add_argument(
            "--take-over",
            default="",
            metavar="ID",
            help="take over from the installation with this ID, which is permanently lost",
        )
        over = verbs.add_parser("take-over", help="take over the cluster from a lost installation")
        over.add_argument("name", metavar="NAME")
        over.add_argument(
            "--owner", default="", metavar="ID", help=("ID of the lost installation; prompted for if omitted")
        )
        over.add_argument(
            "--restarting",
            default="",
            choices=["start", "hold"],
            help="how to handle jobs that may have run since the backup: start or suspend",
        )
        change = verbs.add_parser("set", help=("change the connection, or enable experimental features"))
        change.add_argument("name", metavar="NAME")
        change.add_argument(
            "--live-resize",
            choices=["on", "off"],
            help="allow resizing GPU memory of running slices (requires the agent on the nodes)",
        )
        _connection_arguments(change, kind=None, unset=None)
        verbs.choices["remove"].add_argument("--yes", action="store_true", help="skip the confirmation")
        self.common_arguments(verbs)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        given = {field: options[field] for field in _CONNECTION if options[field]}
        cluster = cluster_add(
            acting_user=user,
            cell=_cell(options["cell"]),
            name=options["name"],
            backend=BackendKind(options["backend"]),
            connection={"kind": options["kind"], **given},
            take_over=options["take_over"],
        )
        nodes = cluster.nodes.count()
        follow = f"next: allotment flavor discover {cluster.name}"
        return _describe(cluster), f"cluster {cluster.name} added with {nodes} nodes; {follow}"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        clusters = ClusterSerializer(cluster_list(viewer=user), many=True).data
        columns = ("name", "cell", "backend", "health", "health_message")
        rows = [[str(row.get(column, "")) for column in columns] for row in clusters]
        return {"items": clusters}, table_text(columns, rows)

    def _set(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["name"])
        connection = _changed(cluster, options)
        if connection is None and options["live_resize"] is None:
            raise CommandError(
                "name what to change: --live-resize or a part of the connection", returncode=USAGE
            )
        fields, words = _describe(cluster), []
        if connection is not None:
            cluster_reconnect(acting_user=user, cluster=cluster, connection=connection)
            words.append(f"it answers by {_shown(connection)} and is the same cluster")
        if options["live_resize"] is not None:
            on = fields["live_resize"] = options["live_resize"] == "on"
            cluster_set(acting_user=user, cluster=cluster, live_resize=on)
            may = "may be changed (experimental)" if on else "is not changed"
            words.append(f"the memory of running GPU slices {may}")
        return fields, f"cluster {cluster.name}: {'; '.join(words)}"

    def _sync(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["name"])
        nodes = cluster_sync(acting_user=user, cluster=cluster)
        return {**_describe(cluster), "nodes": nodes}, f"cluster {cluster.name} has {nodes} nodes"

    def _take_over(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["name"])
        found = cluster_owner(acting_user=user, cluster=cluster)
        owner = options["owner"]
        if found is not None and not owner:
            owner, warning = found.installation, "Two platforms in one cluster allocate its GPUs twice."
            head = f"Cluster {cluster.name} was managed by {describe_owner(found)}."
            question = f"{head} {warning} Is that installation stopped?"
            confirm_by_name(question, owner, wanted="Enter its ID to confirm", instead="--owner")
        if found is not None and owner != found.installation:
            raise CommandError("no changes were made", returncode=FAILED)
        restarting = cluster_restarting(acting_user=user, cluster=cluster)
        hold = bool(restarting) and _holds(restarting, options["restarting"])
        cluster_take_over(acting_user=user, cluster=cluster, owner=owner, hold=restarting if hold else ())
        fields = {
            **_describe(cluster),
            "restarting": [
                {"workspace": job.workspace, "name": job.name, "state": job.state} for job in restarting
            ],
            "held": hold,
        }
        held = f"; suspended until a user resumes them: {_named(restarting)}" if hold else ""
        follow = "next: allotment doctor --deep"
        return fields, f"cluster {cluster.name} is managed by this platform{held}; {follow}"

    def _remove(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["name"])
        fields = _describe(cluster)
        if not options["yes"]:
            confirm_by_name(f"Forget cluster {cluster.name}?", cluster.name)
        cluster_remove(acting_user=user, cluster=cluster)
        return fields, f"cluster {fields['name']} removed"


def _holds(restarting: Sequence[RestartingJob], chosen: str) -> bool:
    """Return whether these jobs will be suspended; asks if nothing was chosen. Raises: CommandError."""
    if chosen:
        return chosen == "hold"
    what = (
        f"{len(restarting)} jobs have no pod in the cluster, and nothing tells whether they have run since"
        f" the backup: {_named(restarting)}."
    )
    try:
        answer = input(f"{what} Write start to let them start, hold to suspend them: ")
    except EOFError:
        answer = ""
    if answer not in ("start", "hold"):
        raise CommandError(f"no changes were made. {what} Use --restarting start|hold", returncode=USAGE)
    return answer == "hold"


def _named(restarting: Sequence[RestartingJob]) -> str:
    names = [f"{job.workspace}/{job.name} ({job.state})" for job in restarting[:_SHOWN]]
    more = len(restarting) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _connection_arguments(parser: ArgumentParser, *, kind: str | None, unset: str | None) -> None:
    parser.add_argument("--kind", choices=["kubeconfig", "in-cluster", "token"], default=kind)
    for field, text in _CONNECTION.items():
        parser.add_argument(f"--{field.replace('_', '-')}", default=unset, metavar="X", help=text)


def _changed(cluster: Cluster, options: dict[str, Any]) -> dict[str, str] | None:
    """Return the connection with the given fields replaced; for another kind only those. None for no change.

    An empty text removes a field.
    """
    named = {field: options[field] for field in _CONNECTION if options[field] is not None}
    if not named and options["kind"] is None:
        return None
    existing = dict(cluster.connection) if options["kind"] in (None, cluster.connection.get("kind")) else {}
    kind = options["kind"] or existing.get("kind", "kubeconfig")
    return {field: value for field, value in (existing | named | {"kind": kind}).items() if value}


def _shown(connection: dict[str, str]) -> str:
    return ", ".join(f"{field} {value}" for field, value in sorted(connection.items()))


def _cell(name: str) -> Cell:
    cells = Cell.unscoped.order_by("name")
    found = list(cells.filter(name=name) if name else cells[:2])
    if len(found) == 1:
        return found[0]
    if name or not found:
        message = (
            f"scheduling domain {name!r} not found"
            if name
            else "no scheduling domain yet; next: allotment init"
        )
        raise CommandError(message, returncode=USAGE)
    raise CommandError("there are several cells; choose one with --cell", returncode=USAGE)


def _describe(cluster: Cluster) -> dict[str, Any]:
    return {"name": cluster.name, "cell": cluster.cell.name, "backend": cluster.backend}
