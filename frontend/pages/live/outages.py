"""The banner about clusters that do not respond, fetched again while a page is open."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from frontend.pages.operations.cluster_scope import remove_null_characters, scope_of
from frontend.shell.outages import find_stale_clusters
from frontend.shell.page_shell import get_viewer, login_required
from quotas.selectors.pools.outages import stale_clusters_of
from tenants.selectors.tenant import workspace_get


@require_GET
@login_required
def show_outages(request: HttpRequest) -> HttpResponse:
    """Render the banner for `?workspace=`, for `?cluster=`, or for all clusters of concern to the reader."""
    who, slug = get_viewer(request), remove_null_characters(request.GET.get("workspace", ""))
    if request.GET.get("cluster"):
        scope = scope_of(request)
        stale = find_stale_clusters([scope.cluster] if scope.cluster else ())
    else:
        stale = stale_clusters_of(who, workspace=workspace_get(viewer=who, slug=slug) if slug else None)
    return render(request, "frontend/components/outages.html", {"stale_clusters": stale})
