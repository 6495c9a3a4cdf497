"""The first page: the user's workspace, the operators' overview, or the next step without either."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.shell import navigation
from frontend.shell.page_shell import REMEMBERED, find_operations_url, get_viewer, login_required, set_frame
from quotas.selectors.tenants.team import team_parents
from tenants.access import permissions
from tenants.selectors.member import membership_list
from tenants.selectors.tenant import workspace_list


@login_required
def redirect_home(request: HttpRequest) -> HttpResponse:
    """Redirect the user to their first page."""
    who = get_viewer(request)
    member = any(membership.tenant_id for membership in membership_list(viewer=who))
    if not member and (operations := find_operations_url(who)):
        return redirect(operations)
    places = {place.slug: place for place in workspace_list(viewer=who)}
    if not places:
        set_frame(request)
        page = {"may_add_team": bool(team_parents(who))}
        return render(request, "frontend/account/no_workspace.html", page)
    place = places.get(request.session.get(REMEMBERED, "")) or next(iter(places.values()))
    return redirect(navigation.first_address(place.slug, permissions.permissions_on(who, place)))
