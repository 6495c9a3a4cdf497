"""The first page: one's own workspace, or the operators' overview, or what to do without either."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.shell import navigation
from frontend.shell.page_shell import REMEMBERED, get_viewer, login_required, set_frame
from quotas.selectors.tenants.team import team_parents
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.selectors.member import membership_list
from tenants.selectors.tenant import workspace_list


@login_required
def redirect_home(request: HttpRequest) -> HttpResponse:
    """Send the visitor to where their work is."""
    who = get_viewer(request)
    member = any(membership.tenant_id for membership in membership_list(viewer=who))
    overview = navigation.find_address("frontend:ops-overview")
    if not member and overview and permissions.has_permission(who, Permission.CLUSTER_VIEW):
        return redirect(overview)
    slugs = [workspace.slug for workspace in workspace_list(viewer=who)]
    if not slugs:
        set_frame(request)
        page = {"may_add_team": bool(team_parents(who))}
        return render(request, "frontend/account/no_workspace.html", page)
    remembered = request.session.get(REMEMBERED)
    slug = remembered if remembered in slugs else slugs[0]
    return redirect("frontend:workspace-overview", workspace=slug)
