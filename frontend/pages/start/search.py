"""The search for jobs, nodes, pools, clusters, queues, workspaces and users by name."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from clusters.models import Flavor
from clusters.selectors.flavor import flavor_find
from clusters.selectors.node import NodeFilter, cluster_list, node_list
from frontend.pages.jobs.addresses import all_jobs_address, job_address, node_address, queue_address
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.selectors.queues.queues_in_sight import find_queues
from scheduling.selectors.jobs.search import job_find
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import workspace_find
from tenants.selectors.user import people_find

_LIMIT = 20


@login_required
def show_results(request: HttpRequest) -> HttpResponse:
    """Show everything in the viewer's sight whose name contains `?q=`; a single hit is opened at once."""
    who, text = get_viewer(request), request.GET.get("q", "").strip()
    jobs = job_find(viewer=who, text=text, limit=_LIMIT) if text else []
    nodes = _nodes(who, text) if text else []
    pools = _pools(who, text) if text else []
    clusters = _clusters(who, text) if text else []
    workspaces = workspace_find(viewer=who, text=text, limit=_LIMIT) if text else []
    queues = find_queues(viewer=who, text=text, limit=_LIMIT) if text else []
    users = _users(who, text) if text else []
    addresses = [
        *(job_address(job.workspace.slug, job.pk) for job in jobs),
        *(url for _name, _cluster, url in nodes),
        *(url for _pool, url in pools),
        *(url for _name, url in clusters),
        *(queue_address(one.workspace.slug, one.name) for one in queues),
        *(reverse("frontend:workspace", args=[place.slug]) for place in workspaces),
        *(url for _user, url in users),
    ]
    if len(addresses) == 1 and addresses[0]:
        return redirect(addresses[0])
    set_frame(request)
    page = {
        "text": text,
        "jobs": jobs,
        "jobs_url": all_jobs_address(who, state="all", q=text),
        "nodes": nodes,
        "pools": pools,
        "clusters": clusters,
        "queues": queues,
        "workspaces": workspaces,
        "users": users,
        "limit": _LIMIT,
    }
    return render(request, "frontend/account/search.html", page)


def _users(who: User, text: str) -> list[tuple[User, str]]:
    """Return users with the page of each, if the viewer may open it."""
    found = people_find(viewer=who, text=text, limit=_LIMIT)
    if not permissions.has_permission(who, Permission.MEMBER_EDIT):
        return [(one, "") for one in found]
    return [(one, reverse("frontend:ops-user", args=[one.pk])) for one in found]


def _pools(who: User, text: str) -> list[tuple[Flavor, str]]:
    """Return pools whose name or GPU model matches with their addresses, if the viewer may see clusters."""
    if not permissions.has_permission(who, Permission.CLUSTER_VIEW):
        return []
    found = flavor_find(viewer=who, text=text, limit=_LIMIT)
    return [(pool, reverse("frontend:ops-flavor", args=[pool.cluster.name, pool.name])) for pool in found]


def _clusters(who: User, text: str) -> list[tuple[str, str]]:
    """Return (name, address) of clusters, if the viewer may see them."""
    if not permissions.has_permission(who, Permission.CLUSTER_VIEW):
        return []
    names = cluster_list(viewer=who).filter(name__icontains=text).values_list("name", flat=True)[:_LIMIT]
    return [(name, reverse("frontend:ops-cluster", args=[name])) for name in names]


def _nodes(who: User, text: str) -> list[tuple[str, str, str]]:
    """Return (name, cluster, address) of nodes, if the viewer may see clusters."""
    if not permissions.has_permission(who, Permission.CLUSTER_VIEW):
        return []
    found = node_list(viewer=who, filters=NodeFilter(name=text))[:_LIMIT]
    return [(node.name, node.cluster.name, node_address(node.name, node.cluster.name)) for node in found]
