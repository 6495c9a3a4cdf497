"""`allotment namespace list|adopt`: the owners of workspaces' namespaces in a cluster."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from clusters.selectors.flavor import cluster_get
from clusters.services.namespace import namespace_adopt, namespace_list
from tenants.management.results import FAILED, USAGE
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import User
from tenants.selectors.tenant import workspace_get


class Command(VerbCommand):
    help = "List workspace namespaces in a cluster and adopt an existing one"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|adopt")
        listed = verbs.add_parser("list", help="list workspaces and the owner of each namespace")
        listed.add_argument("cluster", metavar="CLUSTER")
        adopt = verbs.add_parser("adopt", help="assign an existing namespace to a workspace")
        adopt.add_argument("cluster", metavar="CLUSTER")
        adopt.add_argument("workspace", metavar="WORKSPACE")
        adopt.add_argument(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help=("kubeconfig of a cluster admin; the provided RBAC doesn't permit it to the platform"),
        )
        adopt.add_argument("--yes", action="store_true", help="skip the confirmation")
        self.common_arguments(verbs)

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["cluster"])
        rows = namespace_list(acting_user=user, cluster=cluster)
        items = [{"workspace": row.workspace, "state": row.state.value} for row in rows]
        return {"items": items}, table_text(("workspace", "state"), [tuple(one.values()) for one in items])

    def _adopt(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        cluster = cluster_get(viewer=user, name=options["cluster"])
        workspace = workspace_get(viewer=user, slug=options["workspace"])
        if not options["yes"]:
            self._confirm(cluster.name, workspace.slug)
        before = namespace_adopt(
            acting_user=user, cluster=cluster, workspace=workspace, kubeconfig=options["kubeconfig"]
        )
        fields = {"cluster": cluster.name, "workspace": workspace.slug, "before": before.value}
        return fields, f"namespace {workspace.slug} of {cluster.name} assigned to the workspace"

    def _confirm(self, cluster: str, name: str) -> None:
        self.stdout.write(
            f"Whoever may submit jobs in workspace {name} will be able to use every secret, config map and "
            f"claim in namespace {name} of {cluster}, and the platform will keep its own network policy, "
            "quota and pod security there."
        )
        try:
            answer = input("Write the name of the namespace: ")
        except EOFError:  # standard input is closed
            raise CommandError(
                "no changes were made; use --yes to skip the confirmation", returncode=USAGE
            ) from None
        if answer != name:
            raise CommandError("no changes were made", returncode=FAILED)
