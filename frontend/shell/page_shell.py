"""The common steps of every page: user, location, errors.

A view is wrapped by `login_required` or `operator_required`. Both turn the platform's errors into pages, so
that a view only has to handle success.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _

from alerts.selectors.messages import count_unread
from clusters.models import Cluster
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from foundation.sql import row_scope
from frontend.components import view_models
from frontend.shell import context, navigation
from frontend.shell.bell import UNREAD_MAX, UnreadBell
from frontend.shell.outages import outages_of
from quotas.services.requests.quota_request import requests_to_decide
from scheduling.selectors.jobs.job import count_live_jobs
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_find_live, workspace_list

View = Callable[..., HttpResponseBase]

REMEMBERED: Final = "workspace"
WORKSPACES_MAX: Final = 20
"""The maximum number of workspaces in the switcher."""
STOP_POLLING: Final = 286
"""The status after which htmx doesn't fetch a part of a page again."""


def get_viewer(request: HttpRequest) -> User:
    """Return the user of the request; only for views that require one."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def login_required(view: View) -> View:
    """Redirect visitors without a session to the sign-in page, and turn errors into pages."""

    @wraps(view)
    def guard_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(_return_address(request))
        try:
            return view(request, *args, **kwargs)
        except AllotmentError as error:
            return error_page(request, error)

    return guard_view


def operator_required(view: View) -> View:
    """Require a signed-in user that may view clusters; see `login_required`."""

    @wraps(view)
    def guard_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        permissions.require_permission(get_viewer(request), Permission.CLUSTER_VIEW)
        return view(request, *args, **kwargs)

    return login_required(guard_view)


@row_scope.read_transaction()
def set_frame(
    request: HttpRequest,
    workspace: Tenant | None = None,
    *,
    label: str = "",
    trail: str = "",
    choices: Sequence[context.WorkspaceChoice] = (),
    cluster: Cluster | None = None,
) -> None:
    """Set the visitor's location: a workspace, or with a `label` the operators' side.

    On the operators' side, `label`, `trail` and `choices` fill the switcher, and the page is about `cluster`
    or all; in a workspace they come from what the viewer may see. A page on neither side shows the last
    visited workspace.
    """
    who = get_viewer(request)
    if workspace is None and not label:
        workspace = _last_workspace(request, who)
    if label or workspace is None:
        last = _last_workspace(request, who)
        place = context.PageContext(
            workspace=last.slug if last else "",
            label=label,
            trail=trail,
            choices=choices,
            counts={"requests": number} if (number := requests_to_decide(who)) else {},
            outages=outages_of(who, None, cluster) if label and not who.must_change_password else None,
            **_find_own_parts(request, who, last),
        )
    else:
        _remember(request, workspace)
        choices, more = _workspaces(who, workspace)
        place = context.PageContext(
            workspace=workspace.slug,
            label=workspace.name,
            trail=workspace.parent.name if workspace.parent else "",
            choices=choices,
            more_choices=more,
            counts=_counts(who, workspace),
            outages=None if who.must_change_password else outages_of(who, workspace, None),
            **_find_own_parts(request, who, workspace),
        )
    context.set_place(request, place)


def find_operations_url(who: User) -> str:
    """Return the first page of the operators' side that is of use to the visitor; empty without any."""
    everywhere = permissions.permissions_on(who)
    pages = (
        ("frontend:ops-overview", Permission.CLUSTER_VIEW in everywhere),
        ("frontend:ops-quotas", Permission.QUOTA_EDIT in permissions.permissions_anywhere(who)),
        ("frontend:ops-jobs", permissions.has_above_workspaces(who, Permission.JOB_VIEW)),
        ("frontend:ops-users", Permission.MEMBER_EDIT in everywhere),
        ("frontend:ops-audit", Permission.AUDIT_VIEW in everywhere),
    )
    return next((navigation.find_address(name) for name, allowed in pages if allowed), "")


def error_page(request: HttpRequest, error: AllotmentError) -> HttpResponse:
    """Render an error in the console's frame, with next steps and the error's own status."""
    set_frame(request)
    return render(request, "frontend/error.html", {"problem": problem_of(error)}, status=error.status)


def problem_of(error: AllotmentError) -> view_models.ProblemBox:
    """Return an error as a problem in the reader's language."""
    if isinstance(error, NotFound):
        return view_models.ProblemBox(
            title=_("Page not found"),
            detail=_("The page doesn't exist, was deleted, or you don't have permission to view it."),
            help=_("Check the URL, or ask a workspace admin for access."),
            code=error.code,
        )
    if isinstance(error, PermissionDenied):
        return view_models.ProblemBox(
            title=_("Permission denied"),
            detail=_("Your role doesn't allow this action. No changes were made."),
            help=_("Contact a workspace admin or a platform admin."),
            code=error.code,
        )
    return view_models.ProblemBox(
        title=_("Action failed"),
        detail=error.detail,
        unchanged=_("No changes were made."),
        code=error.code,
    )


def _return_address(request: HttpRequest) -> str:
    """Return the address to open after signing in: the page itself when a part of it was being refreshed."""
    shown = request.headers.get("HX-Current-URL", "")
    if not shown:
        return request.get_full_path()
    parts_of = urlsplit(shown)
    return f"{parts_of.path}?{parts_of.query}" if parts_of.query else parts_of.path


def _workspaces(who: User, current: Tenant) -> tuple[list[context.WorkspaceChoice], bool]:
    """Return the first `WORKSPACES_MAX` with the current one, and whether there are more."""
    found = workspace_list(viewer=who, limit=WORKSPACES_MAX + 1)
    more = len(found) > WORKSPACES_MAX
    if more:
        found = [current, *(tenant for tenant in found if tenant.pk != current.pk)][:WORKSPACES_MAX]
    return [
        context.WorkspaceChoice(
            label=tenant.name,
            url=navigation.find_address("frontend:workspace", workspace=tenant.slug),
            note=tenant.parent.name if tenant.parent else "",
            current=tenant.pk == current.pk,
        )
        for tenant in found
    ], more


def _remember(request: HttpRequest, workspace: Tenant) -> None:
    # Written only when it changes: a session write per page view would be one more transaction.
    if request.session.get(REMEMBERED) != workspace.slug:
        request.session[REMEMBERED] = workspace.slug


def _find_own_parts(request: HttpRequest, who: User, workspace: Tenant | None) -> dict[str, Any]:
    """Return the visitor's own parts of the frame: the bell, and links that they may open on this page's
    side.
    """
    match = request.resolver_match
    operations = navigation.product_of((match.view_name if match else "") or "") == navigation.OPERATIONS
    return {
        # Nothing of the frame is fetched before a one-time password is changed: each fetch would be
        # redirected, and the browser would reload the page while the new password is entered.
        "bell": None if who.must_change_password else UnreadBell(count_unread(who, limit=UNREAD_MAX)),
        "operations_url": find_operations_url(who),
        "operations_allowed": permissions.has_permission(who, Permission.CLUSTER_VIEW),
        "jobs_above_allowed": permissions.has_above_workspaces(who, Permission.JOB_VIEW),
        "allowed": permissions.permissions_on(who, None if operations else workspace),
        "allowed_anywhere": permissions.permissions_anywhere(who),
    }


def _last_workspace(request: HttpRequest, who: User) -> Tenant | None:
    """Return the workspace to which the product switch leads back: the last visited, else the first."""
    remembered = request.session.get(REMEMBERED)
    found = workspace_find_live(viewer=who, slug=remembered) if remembered else None
    return found or next(iter(workspace_list(viewer=who, limit=1)), None)


def _counts(who: User, workspace: Tenant) -> dict[str, int]:
    if not permissions.has_permission(who, Permission.JOB_VIEW, workspace):
        return {}
    return {"jobs": count_live_jobs(viewer=who, workspace=workspace)}
