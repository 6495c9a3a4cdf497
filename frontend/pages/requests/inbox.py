"""The approval inbox: the requests of tenants with their evidence, and decisions."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from foundation.core.errors import AllotmentError, Invalid, NotFound, PermissionDenied, Refused
from foundation.core.numbers import read_whole
from foundation.web.listing import filter_rows, sort_rows
from frontend.components import view_models
from frontend.lists.page_list import EmptyList, answer_list, cut_by_keys, read_list
from frontend.pages.quotas import form
from frontend.pages.quotas.way_out import describe_lacks
from frontend.pages.requests import amounts, labels
from frontend.pages.requests.request_columns import INBOX, inbox_row, request_row
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import QuotaRequest, RequestState
from quotas.selectors.changes.quota_request import INBOX_COLUMNS, quota_request_get, quota_requests
from quotas.selectors.changes.request_lack import AskedQuota, find_offer, find_request_lacks, read_asked_quota
from quotas.selectors.limits.pool_limits import PoolLimits, pool_limits
from quotas.selectors.pools.flavor import find_flavor_named
from quotas.selectors.tables.quota_sources import QuotaLack
from quotas.services.quota import NodeAmounts
from quotas.services.quota_preview import quota_preview
from quotas.services.quota_raise import quota_raise
from quotas.services.requests import quota_request as service
from quotas.services.requests.request_amounts import find_missing_amounts
from tenants.models import User


@require_GET
@login_required
def show_inbox(request: HttpRequest) -> HttpResponse:
    """Show the requests in sight; by default those that wait for a decision."""
    who, listing = get_viewer(request), read_list(request, INBOX, {"state": ["all"]})
    set_frame(request, label=_("Quota requests"))
    rows = quota_requests(who)
    if listing.query.get("state") != "all":
        rows = rows.filter(state=RequestState.PENDING)
    rows = sort_rows(filter_rows(rows, listing.conditions), listing.sort, INBOX_COLUMNS)
    none = EmptyList(_("No pending requests"), _("Requests of tenants that you can view appear here."))
    return answer_list(
        request,
        listing,
        rows,
        lambda found: [inbox_row(who, each, decides=service.may_decide_request(who, each)) for each in found],
        template="frontend/requests/inbox.html",
        context=lambda: {
            "states": [
                view_models.Chip(label=_("Pending"), value=""),
                view_models.Chip(label=_("All"), value="all"),
            ],
            "row": "frontend/requests/request_row.html",
            "empty_list": none,
        },
        cut=cut_by_keys(quota_requests(who), rows.count),
    )


@login_required
def show_request(request: HttpRequest, quota_request: uuid.UUID) -> HttpResponse:
    """Show one request with its evidence; POST decides, or fills the proposal in for a number of GPUs."""
    who = get_viewer(request)
    found = quota_request_get(who, quota_request)
    if "fill" in request.POST:
        return _fill(request, who, found)
    if request.method == "POST":
        return _decide(request, who, found)
    return _show(request, who, found)


@require_GET
@login_required
def show_effect(request: HttpRequest, quota_request: uuid.UUID) -> HttpResponse:
    """Preview the effect of an approval; writes nothing."""
    who = get_viewer(request)
    found = quota_request_get(who, quota_request)
    context: dict[str, Any]
    try:
        changes = [NodeAmounts(found.node, find_missing_amounts(found.node, found.asked))]
        preview = quota_preview(acting_user=who, cell_id=found.node.cell_id, changes=changes)
        context = {"preview": preview, "title": _("Impact of approval")}
    except AllotmentError as error:
        context = {"refusal": error.detail, **_way_out(who, found)}
    return render(request, "frontend/requests/effect.html", context)


def _way_out(who: User, found: QuotaRequest) -> dict[str, Any]:
    """Return the quota lacking for an approval, the raises that would cover it, and a possible offer."""
    if not service.may_decide_request(who, found):
        return {}
    asked = read_asked_quota(found)
    lacks = find_request_lacks(who, asked)
    if not lacks:
        return {}
    offer = find_offer(asked, lacks)
    return {
        "ways": describe_lacks(lacks),
        "may_raise": all(lack.raises for lack in lacks),
        "offer": labels.wish_lines(offer, found.current),
    }


def _require_lacks(who: User, found: QuotaRequest) -> tuple[AskedQuota, list[QuotaLack]]:
    """Return what is requested and what is lacking. Raises: PermissionDenied for a viewer who doesn't decide,
    because it names other tenants.
    """
    if not service.may_decide_request(who, found):
        raise PermissionDenied
    asked = read_asked_quota(found)
    return asked, find_request_lacks(who, asked)


@transaction.atomic
def _raise_and_approve(who: User, found: QuotaRequest, answer: str, version: int | None) -> None:
    _asked, lacks = _require_lacks(who, found)
    quota_raise(acting_user=who, lacks=lacks, reason=answer)
    service.quota_request_approve(acting_user=who, request=found, answer=answer, version=version)


def _offer_available(who: User, found: QuotaRequest, answer: str, version: int | None) -> None:
    offer = find_offer(*_require_lacks(who, found))
    if not offer:
        raise Refused(_("No quota is available to propose. Reload the page."))
    service.quota_request_counter(acting_user=who, request=found, offer=offer, answer=answer, version=version)


def _decide(request: HttpRequest, who: User, found: QuotaRequest) -> HttpResponse:
    what, answer = request.POST.get("do", ""), request.POST.get("answer", "").strip()[:2000]
    version = _version(request)
    items: list[dict[str, Any]] = []
    typed: form.Typed | None = None
    try:
        if what == "approve":
            service.quota_request_approve(acting_user=who, request=found, answer=answer, version=version)
            messages.success(request, _("Request approved. Quota updated."))
        elif what == "raise-approve":
            _raise_and_approve(who, found, answer, version)
            messages.success(request, _("Request approved. Quota updated."))
        elif what == "offer-available":
            _offer_available(who, found, answer, version)
            messages.success(request, _("Proposal sent to the requester"))
        elif what == "reject" and answer:
            service.quota_request_reject(acting_user=who, request=found, answer=answer, version=version)
            messages.success(request, _("Request rejected"))
        elif what == "reject":
            return _show(request, who, found, refusal=_("Enter a reason. The requester sees it."), status=400)
        elif what == "counter":
            typed = form.read_form(request.POST.dict())
            limits = _limits(who, found)
            items = amounts.requested_items(typed, limits)
            offer = [*items, *amounts.select_other_pools(found.asked, limits)]
            service.quota_request_counter(
                acting_user=who, request=found, offer=offer, answer=answer, version=version
            )
            messages.success(request, _("Proposal sent to the requester"))
        else:
            raise NotFound
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        marked = amounts.mark_errors(typed, items, error.errors) if typed else None
        return _show(request, who, found, refusal=error.detail, status=error.status, typed=marked)
    return redirect("frontend:ops-requests")


def _fill(request: HttpRequest, who: User, found: QuotaRequest) -> HttpResponse:
    """Show the page with the proposal filled in for a number of whole GPUs; nothing is sent."""
    data = request.POST.dict()
    try:
        filled = form.fill_gpus(data, _limits(who, found), only_more=True)
    except Invalid as error:
        typed = form.read_form(data)
        return _show(request, who, found, refusal=error.detail, status=error.status, typed=typed)
    return _show(request, who, found, typed=filled)


def _show(
    request: HttpRequest,
    who: User,
    found: QuotaRequest,
    *,
    refusal: str = "",
    status: int = 200,
    typed: form.Typed | None = None,
) -> HttpResponse:
    set_frame(request, label=_("Quota requests"), trail=labels.node_word(found.node))
    limits = _limits(who, found)
    pending = found.state == RequestState.PENDING
    context: dict[str, Any] = {
        "found": found,
        "row": request_row(who, found),
        "evidence": labels.evidence_facts(found.evidence),
        "evidence_at": found.created_at,
        "may_decide": pending and service.may_decide_request(who, found),
        "typed": typed or amounts.requested_form(limits, found.asked),
        "pool": limits.flavor,
        "other_pools": labels.wish_lines(amounts.select_other_pools(found.asked, limits), found.current),
        "refusal": refusal,
        "gpu_pool": bool(limits.flavor.card_model),
        "comment": request.POST.get("answer", "")[:2000] if typed else "",
        "crumbs": [view_models.Crumb(label=_("Quota requests"), url="/ops/requests")],
    }
    return render(request, "frontend/requests/request.html", context, status=status)


def _limits(who: User, found: QuotaRequest) -> PoolLimits:
    """Return the limits in the pool of the first item: a page requests one pool at a time, REST several."""
    item = found.asked[0]
    pool = find_flavor_named(found.node.cell_id, item["cluster"], item["flavor"])
    if pool is None:
        raise NotFound(_("The pool of this request no longer exists."))
    return pool_limits(who, found.node, pool)


def _version(request: HttpRequest) -> int | None:
    return read_whole(request.POST.get("version", ""))
