"""What pages show that need a scheduling domain or a root tenant, before the installation has them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from clusters.selectors.cell import cell_list
from frontend.shell.page_shell import get_viewer, set_frame
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.selectors.tenant import tenant_topmost


def show_uninitialized(request: HttpRequest, label: str, trail: str) -> HttpResponse | None:
    """Return a page that names `allotment init`, for a platform admin of an installation that lacks it."""
    who = get_viewer(request)
    if not permissions.has_permission(who, Permission.CLUSTER_EDIT):
        return None
    if cell_list(viewer=who) and tenant_topmost(viewer=who):
        return None
    set_frame(request, label=label, trail=trail)
    status = 200 if request.method == "GET" else 409
    return render(request, "frontend/setup/uninitialized.html", {"label": label}, status=status)
