"""Setting the limits of one node in one pool: entered, previewed, saved."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied, Refused
from foundation.core.numbers import read_whole
from frontend.pages.estimates.change_estimate import offer_estimate, show_requested, wants_estimate
from frontend.pages.quotas import form
from frontend.pages.quotas.page import Open, render_page, resource_of, resource_word
from frontend.shell.page_shell import get_viewer, login_required
from quotas.selectors.limits.pool_limits import PoolLimits, pool_limits
from quotas.selectors.pools.flavor import find_flavor
from quotas.selectors.tables.quota_table import quota_node_get, tenant_get
from quotas.services.quota import NodeAmounts, quota_set
from quotas.services.quota_preview import QuotaPreview, quota_preview
from quotas.texts.amounts import format_amount
from scheduling.services.start_estimate.change_request import request_quota_estimate
from tenants.models import User


@require_POST
@login_required
def save(request: HttpRequest, node: uuid.UUID, flavor: uuid.UUID) -> HttpResponse:
    """Save the input, or show the form again with its errors; `fill` only fills it in."""
    who = get_viewer(request)
    found = _place(who, node, flavor)
    typed = form.read_form(request.POST.dict())
    tenant = tenant_get(who, request.POST.get("tenant", "").replace("\x00", ""))
    try:
        if "fill" in request.POST:
            return render_page(request, tenant, Open(found, form.fill_gpus(request.POST.dict(), found)))
        revision = quota_set(
            acting_user=who,
            node=found.node,
            amounts=form.changed_amounts(typed, found),
            version=_version(typed),
            reason=typed.reason,
            shrink=typed.choice,
        )
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        opened = Open(found, typed.mark_errors(error.errors))
        return render_page(request, tenant, opened, error.detail, status=error.status)
    if revision is None:
        messages.info(request, _("No changes to save."))
    else:
        messages.success(request, _("Quota of %(name)s updated") % {"name": found.name})
    query = urlencode({"tenant": tenant.slug, "resource": resource_word(resource_of(request))})
    return redirect(f"{reverse('frontend:ops-quotas')}?{query}")


@require_POST
@login_required
def check(request: HttpRequest, node: uuid.UUID, flavor: uuid.UUID) -> HttpResponse:
    """Preview the change; writes nothing."""
    who = get_viewer(request)
    found = _place(who, node, flavor)
    typed = form.read_form(request.POST.dict())
    effect: dict[str, Any]
    try:
        amounts = form.changed_amounts(typed, found)
        change: dict[str, Any] = {
            "acting_user": who,
            "cell_id": found.node.cell_id,
            "changes": [NodeAmounts(found.node, amounts, _version(typed))],
            "shrink": typed.choice,
        }
        if wants_estimate(request):
            return show_requested(request, partial(request_quota_estimate, **change))
        preview = quota_preview(**change)
        effect = {"preview": preview, "over": over_quota_lines(preview), **offer_estimate(request)}
    except Refused as error:
        effect = {"refusal": error.detail}
    except AllotmentError as error:
        effect = {"refusal": error.errors[0].message if error.errors else error.detail}
    return render(request, "frontend/quotas/effect.html", effect)


def _place(who: User, node: uuid.UUID, flavor: uuid.UUID) -> PoolLimits:
    found = quota_node_get(who, node)
    chosen = find_flavor(found.cell_id, flavor)
    if chosen is None:
        raise NotFound
    return pool_limits(who, found, chosen)


def _version(typed: form.Typed) -> int | None:
    version = read_whole(typed.version)
    return -1 if version is None else version


def over_quota_lines(preview: QuotaPreview) -> list[str]:
    """Return a sentence for each node that would reserve more than its quota."""
    return [
        _("%(node)s uses %(used)s; the new quota is %(limit)s.")
        % {
            "node": preview.names[over.key.node_id],
            "used": format_amount(over.key.resource, over.reserved),
            "limit": format_amount(over.key.resource, over.limit),
        }
        for over in preview.over_quota
    ]
