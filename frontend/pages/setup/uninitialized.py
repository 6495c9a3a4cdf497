"""The page that replaces pages that need a scheduling domain and a root tenant, while these don't exist."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from clusters.selectors.cell import has_cells
from frontend.lists.page_list import EmptyList
from frontend.shell.page_shell import get_viewer, set_frame
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import has_root_tenant


def show_uninitialized(request: HttpRequest, label: str, trail: str) -> HttpResponse | None:
    """Return a page that names `allotment init`, for a platform admin of an installation that lacks it."""
    if not lacks_domain(get_viewer(request)):
        return None
    set_frame(request, label=label, trail=trail)
    status = 200 if request.method == "GET" else 409
    context = {"label": label, "empty": uninitialized_list()}
    return render(request, "frontend/setup/uninitialized.html", context, status=status)


def lacks_domain(who: User) -> bool:
    """Return whether the reader is a platform admin of an installation without a domain or a root tenant."""
    if not permissions.has_permission(who, Permission.CLUSTER_EDIT):
        return False
    return not (has_cells() and has_root_tenant())


def uninitialized_list() -> EmptyList:
    """Return the text of the page, and of a list that is empty for this reason."""
    hint = _("Create the scheduling domain and the root tenant on the server with: allotment init")
    return EmptyList(_("Installation not initialized"), hint, icon="boxes")
