"""Finding a job, a node or a workspace by its name."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from clusters.selectors.node import NodeFilter, node_list
from frontend.pages.jobs.addresses import all_jobs_address, job_address, node_address
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.selectors.jobs.search import job_find
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import workspace_find

_LIMIT = 20


@login_required
def show_results(request: HttpRequest) -> HttpResponse:
    """Everything in the viewer's sight whose name holds `?q=`; a single hit is opened at once."""
    who, text = get_viewer(request), request.GET.get("q", "").strip()
    jobs = job_find(viewer=who, text=text, limit=_LIMIT) if text else []
    nodes = _nodes(who, text) if text else []
    workspaces = workspace_find(viewer=who, text=text, limit=_LIMIT) if text else []
    addresses = [
        *(job_address(job.workspace.slug, job.pk) for job in jobs),
        *(url for _name, _cluster, url in nodes),
        *(reverse("frontend:workspace", args=[place.slug]) for place in workspaces),
    ]
    if len(addresses) == 1 and addresses[0]:
        return redirect(addresses[0])
    set_frame(request)
    page = {
        "text": text,
        "jobs": jobs,
        "jobs_url": all_jobs_address(who, state="all", q=text),
        "nodes": nodes,
        "workspaces": workspaces,
        "limit": _LIMIT,
    }
    return render(request, "frontend/account/search.html", page)


def _nodes(who: User, text: str) -> list[tuple[str, str, str]]:
    """(name, cluster, address) of nodes, for those who may look at clusters."""
    if not permissions.has_permission(who, Permission.CLUSTER_VIEW):
        return []
    found = node_list(viewer=who, filters=NodeFilter(name=text))[:_LIMIT]
    return [(node.name, node.cluster.name, node_address(node.name, node.cluster.name)) for node in found]
