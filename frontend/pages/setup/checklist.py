"""The first steps of an installation, shown to platform admins until all are done or hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from clusters.models import Cluster
from clusters.selectors.flavor import flavor_list
from clusters.selectors.node import cluster_list
from frontend.pages.setup.cluster_found import read_clusters
from frontend.shell.page_shell import get_viewer, login_required
from quotas.selectors.queues.queues_in_sight import visible_queues
from scheduling.selectors.jobs.first_job import has_started_job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.services.setup import is_setup_dismissed, setup_dismiss


@dataclass(frozen=True, slots=True)
class ChecklistStep:
    """One step: whether it is done, the facts, and where to do it.

    `current` is the first step that is not done. An empty `url` means that earlier steps have to be done
    first.
    """

    title: str
    text: str
    done: bool
    url: str
    action: str
    current: bool = False


def read_steps(who: User) -> Sequence[ChecklistStep]:
    """Return the steps for a platform admin; none if all are done, or they were hidden."""
    if not permissions.has_permission(who, Permission.CLUSTER_EDIT):
        return ()
    if is_setup_dismissed() or has_started_job(who):
        return ()
    clusters = list(cluster_list(viewer=who))
    pools = _pools(who, clusters)
    steps = [_cluster(who, clusters), pools, *_team_and_job(who, ready=pools.done)]
    first = next((step for step in steps if not step.done), None)
    return [replace(step, current=step is first) for step in steps]


def _cluster(who: User, clusters: Sequence[Cluster]) -> ChecklistStep:
    if not clusters:
        text = _("Simulated, to try Allotment, or Kubernetes")
        return ChecklistStep(
            _("Add a cluster"), text, False, reverse("frontend:ops-cluster-new"), _("Add cluster")
        )
    found = read_clusters(who, clusters)
    gpus, nodes = sum(one.gpus for one in found), sum(one.nodes for one in found)
    words = {"gpus": gpus, "nodes": nodes}
    text = ngettext("%(gpus)s GPUs on %(nodes)s node", "%(gpus)s GPUs on %(nodes)s nodes", nodes) % words
    # Pools are a separate step.
    missing = [check.text for one in found for check in one.checks[:-1] if check.passed is False]
    done = gpus > 0 and not missing
    return ChecklistStep(
        _("Add a cluster"), " · ".join([text, *missing[:1]]), done, _address(clusters), _("View")
    )


def _pools(who: User, clusters: Sequence[Cluster]) -> ChecklistStep:
    pools = [pool for pool in flavor_list(viewer=who) if pool.nodes]
    text = ", ".join(f"{pool.name} ({pool.cards})" for pool in pools) or _("Nodes with GPUs of one model")
    url = _address(clusters) if clusters else ""
    return ChecklistStep(_("Create pools"), text, bool(pools), url, _("View") if pools else _("Create pools"))


def _address(clusters: Sequence[Cluster]) -> str:
    if len(clusters) == 1:
        return reverse("frontend:ops-cluster", args=[clusters[0].name])
    return reverse("frontend:ops-clusters")


def _team_and_job(who: User, *, ready: bool) -> list[ChecklistStep]:
    names = {queue.workspace.name: queue.workspace.slug for queue in visible_queues(who)}
    text = ", ".join(sorted(names)[:5]) or _("Workspace, members, quota and queue in one step")
    team = reverse("frontend:ops-team-new") if ready else ""
    job = reverse("frontend:workspace-overview", args=[min(names.values())]) if names else ""
    return [
        ChecklistStep(_("Create a team"), text, bool(names), team, _("New team")),
        ChecklistStep(
            _("Run a first job"), _("Prefilled to fit the quota"), False, job, _("Go to workspace")
        ),
    ]


@require_POST
@login_required
def dismiss_checklist(request: HttpRequest) -> HttpResponse:
    """Hide the checklist."""
    setup_dismiss(acting_user=get_viewer(request))
    return redirect("frontend:ops-overview")
