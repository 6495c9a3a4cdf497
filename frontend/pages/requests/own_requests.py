"""Requests of a workspace or a folder: create one, see its outcome, answer a counter-offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core.errors import AllotmentError, Invalid, NotFound, PermissionDenied
from foundation.core.sentences import join_sentences
from foundation.web.listing import filter_rows, sort_rows
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.quotas import form
from frontend.pages.requests import amounts, labels
from frontend.pages.requests.lack import Lack, fill_in, read_draft_lack, read_lack
from frontend.pages.requests.request_columns import REQUESTS, request_row
from frontend.pages.tenancy.tenant_tree import crumbs_to
from frontend.shell.form_actions import run_change
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import QuotaNode
from quotas.selectors.changes.quota_request import (
    COLUMNS,
    request_nodes,
    workspace_request_get,
    workspace_requests,
)
from quotas.selectors.limits.pool_limits import PoolLimits, pool_limits
from quotas.selectors.pools.flavor import usable_flavors
from quotas.services.quota import find_decider
from quotas.services.requests import quota_request as service
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.member import list_admins
from tenants.selectors.tenant import tenant_get, workspace_get

_Chosen = TypeVar("_Chosen", QuotaNode, Flavor)


class AskForm(forms.Form):
    """The fields of a request other than its limits."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Shown to the approver"),
    )
    until = forms.DateTimeField(
        label=gettext_lazy("Required until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("UTC. Leave empty for a permanent change."),
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a request: one quota in one pool. `lack` is the shortage of the job that led here."""

    nodes: Sequence[QuotaNode]
    pools: Sequence[Flavor]
    limits: PoolLimits
    lack: Lack | None = None


@login_required
def show_requests(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the form and the list of a workspace; POST creates or answers a request."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    return _page(request, get_viewer(request), place)


@login_required
def folder_requests(request: HttpRequest, tenant: UUID) -> HttpResponse:
    """Show the form and the list of a folder, on the operators' side; a workspace has its own page."""
    place = tenant_get(viewer=get_viewer(request), tenant_id=tenant)
    if place.is_workspace:
        return redirect(_here(place))
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    return _page(request, get_viewer(request), place)


def _here(place: Tenant) -> str:
    if place.is_workspace:
        return reverse("frontend:workspace-requests", args=[place.slug])
    return reverse("frontend:ops-tenant-requests", args=[place.pk])


def _page(request: HttpRequest, who: User, place: Tenant) -> HttpResponse:
    what = request.POST.get("do", "")
    if request.method == "POST" and what != "ask":
        _answer(request, who, place, what)
        return redirect(_here(place))
    subject = _subject(request, who, place)
    if request.method == "POST" and subject is not None:
        return _ask(request, who, place, subject)
    typed = form.form_of(subject.limits) if subject else None
    if typed is not None and subject is not None and subject.lack is not None:
        typed = fill_in(typed, subject.lack)
    return _show(request, place, subject, typed, AskForm())


def _ask(request: HttpRequest, who: User, place: Tenant, subject: Subject) -> HttpResponse:
    typed = form.read_form(request.POST.dict())
    asking = AskForm(request.POST if "fill" not in request.POST else None, initial=request.POST.dict())
    if "fill" in request.POST:
        return _fill(request, place, subject, typed, asking)
    if not asking.is_valid():
        return _show(request, place, subject, typed, asking, status=400)
    items: list[dict[str, Any]] = []
    try:
        items = amounts.requested_items(typed, subject.limits)
        sent = service.quota_request_create(
            acting_user=who,
            node=subject.limits.node,
            asked=items,
            reason=asking.cleaned_data["reason"],
            until=asking.cleaned_data["until"],
        )
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        typed = amounts.mark_errors(typed, items, error.errors)
        for found in error.errors:
            if found.field in asking.fields:
                asking.add_error(found.field, found.message)
        return _show(request, place, subject, typed, asking, error.detail, error.status)
    who_decides = _describe_decider(who, service.request_decider(sent))
    messages.success(request, join_sentences([_("Request submitted."), who_decides]))
    return redirect(_here(place))


def _fill(
    request: HttpRequest, place: Tenant, subject: Subject, typed: form.Typed, asking: AskForm
) -> HttpResponse:
    """Show the form filled in for a number of whole GPUs; a request only ever asks for more."""
    try:
        filled = form.fill_gpus(request.POST.dict(), subject.limits, only_more=True)
    except Invalid as error:
        return _show(request, place, subject, typed, asking, error.detail, error.status)
    return _show(request, place, subject, filled, asking)


def _answer(request: HttpRequest, who: User, place: Tenant, what: str) -> None:
    try:
        pk = UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    found = workspace_request_get(who, place, pk)
    changes = {
        "withdraw": (service.quota_request_withdraw, _("Request withdrawn")),
        "accept": (service.quota_request_accept, _("Proposal accepted. Quota updated.")),
        "decline": (service.quota_request_decline, _("Proposal declined")),
    }
    if what not in changes:
        raise NotFound
    change, word = changes[what]
    run_change(request, lambda: change(acting_user=who, request=found), word)


def _subject(request: HttpRequest, who: User, place: Tenant) -> Subject | None:
    """Return the subject in the address, or the quota that blocks the job in it; by default the whole tenant
    and the first pool with GPUs. None without a quota.

    A queue's own quota is divided inside the workspace; more than that is requested for the workspace.
    """
    nodes = request_nodes(who, place)
    if not nodes:
        return None
    lack = read_lack(who, place, request.GET.get("job", ""), request.GET.get("pool", ""))
    lack = lack or read_draft_lack(who, place, request.GET)
    if lack is not None and (blocked := next((node for node in nodes if node.pk == lack.node), None)):
        return Subject(nodes, usable_flavors(blocked), pool_limits(who, blocked, lack.flavor), lack)
    whole = next((node for node in nodes if not node.is_queue), nodes[0])
    node = _chosen(request, "node", nodes, whole)
    pools = usable_flavors(node)
    if not pools:
        return None
    usual = next((pool for pool in pools if pool.card_model), pools[0])
    return Subject(nodes, pools, pool_limits(who, node, _chosen(request, "flavor", pools, usual)))


def _chosen(request: HttpRequest, name: str, choices: Sequence[_Chosen], usual: _Chosen) -> _Chosen:
    """Return the choice that the address names, or the default; a submitted choice is never replaced.

    Raises: NotFound.
    """
    asked = request.GET.get(name, "")
    found = next((each for each in choices if str(each.pk) == asked), None)
    if found is None and asked and request.method == "POST":
        raise NotFound
    return found or usual


def _show(
    request: HttpRequest,
    place: Tenant,
    subject: Subject | None,
    typed: form.Typed | None,
    asking: AskForm,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    who = get_viewer(request)
    admin = permissions.has_permission(who, Permission.QUOTA_EDIT, place)
    listing = read_list(request, REQUESTS)
    context: dict[str, Any] = {
        "place": place,
        "crumbs": [] if place.is_workspace else crumbs_to(place),
        "subject": subject,
        "typed": typed,
        "asking": asking,
        "refusal": refusal,
        "may_ask": permissions.has_permission(who, Permission.JOB_SUBMIT, place),
        "gpu_pool": bool(subject and subject.limits.flavor.card_model),
        "row": "frontend/requests/request_row.html",
        "menu": "frontend/requests/request_menu.html",
        "empty_list": EmptyList(_("No quota requests"), _("Requests and their status appear here.")),
    }
    if subject is not None:
        query = {"node": subject.limits.node.pk, "flavor": subject.limits.flavor.pk}
        context["ask_url"] = f"{_here(place)}?{urlencode(query)}"
        context["links"] = _links(place, subject)
        context["deciders"] = _describe_deciders_of(who, subject.limits.node)
    rows = filter_rows(workspace_requests(who, place), listing.conditions)
    return answer_list(
        request,
        listing,
        sort_rows(rows, listing.sort, COLUMNS),
        lambda found: [request_row(who, each, admin=admin) for each in found],
        template="frontend/requests/requests.html",
        dialogs="frontend/requests/request_dialogs.html",
        context=lambda: context,
        status=status,
    )


def _describe_deciders_of(who: User, node: QuotaNode) -> str:
    """Return who decides about requests for a node, and about those that change limits if that differs."""
    usual, of_limits = (find_decider(node, limits=limits) for limits in (False, True))
    if usual == of_limits:
        return _describe_decider(who, usual)
    words = {"who": _name_admins(who, usual), "above": _name_admins(who, of_limits)}
    return (
        _("Requests are decided by %(who)s; by %(above)s if they change a borrowing or lending limit.")
        % words
    )


def _describe_decider(who: User, decider: Tenant | None) -> str:
    return _("Requests are decided by %(who)s.") % {"who": _name_admins(who, decider)}


def _name_admins(who: User, decider: Tenant | None) -> str:
    """Return the admins of a tenant as text; names only of a tenant and of admins in sight."""
    if decider is None:
        return _("platform admins")
    if not permissions.has_permission(who, Permission.TENANT_VIEW, decider):
        return _("parent admins")
    names = list_admins(viewer=who, tenants=[decider.pk]).get(decider.pk, [])
    words = {"tenant": decider.name, "names": _(", ").join(names)}
    return (_("admins of %(tenant)s (%(names)s)") if names else _("admins of %(tenant)s")) % words


def _links(place: Tenant, subject: Subject) -> dict[str, list[dict[str, Any]]]:
    """Return the links to the form of each quota and each pool."""
    page = _here(place)

    def build_link(label: str, node: UUID, pool: UUID, *, current: bool) -> dict[str, Any]:
        query = urlencode({"node": node, "flavor": pool})
        return {"label": label, "url": f"{page}?{query}#ask", "current": current}

    own, pool = subject.limits.node.pk, subject.limits.flavor.pk
    return {
        "nodes": [
            build_link(labels.node_word(node), node.pk, pool, current=node.pk == own)
            for node in subject.nodes
        ],
        "pools": [build_link(each.name, own, each.pk, current=each.pk == pool) for each in subject.pools],
    }
