"""A batch of changes in the quota tree: read, previewed, and saved as a whole."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from clusters.models import Flavor
from foundation.core.errors import AllotmentError, FieldError, Invalid, NotFound, PermissionDenied
from foundation.core.numbers import read_whole
from foundation.core.quantities import QuantityError, Resource, parse_cpu
from frontend.pages.estimates.change_estimate import offer_estimate, show_requested, wants_estimate
from frontend.pages.quotas.edit import over_quota_lines
from frontend.pages.quotas.tree import tree_of
from frontend.pages.quotas.tree_lines import GPUS, gpu_column, node_of
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts import formats
from frontend.texts.typed import parse_gibibytes
from quotas.models import QuotaNode
from quotas.selectors.pools.pool_size import PoolSize, pool_sizes
from quotas.selectors.tables.quota_table import quota_nodes_get
from quotas.services.quota import NodeAmounts, QuotaAmount, Shrink, quota_change
from quotas.services.quota_files.pool_form import amounts_of_compute
from quotas.services.quota_follow import extend_to_queues
from quotas.services.quota_preview import quota_preview
from quotas.tree.limits import Amount
from scheduling.services.start_estimate.change_request import request_quota_estimate
from tenants.models import User

EDITS_MAX: Final = 500
_PREFIX: Final = "edit."
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")


@require_POST
@login_required
def check_batch(request: HttpRequest, flavor: uuid.UUID) -> HttpResponse:
    """Preview the batch; writes nothing."""
    who = get_viewer(request)
    pool = tree_of(who, flavor)
    try:
        change: dict[str, Any] = {
            "acting_user": who,
            "cell_id": pool.cluster.cell_id,
            "changes": _read_changes(who, pool, request.POST),
            "shrink": _shrink(request),
        }
        if wants_estimate(request):
            return show_requested(request, partial(request_quota_estimate, **change))
        preview = quota_preview(**change)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        return _refused(request, error, 200)
    effect = {"preview": preview, "over": over_quota_lines(preview), **offer_estimate(request)}
    return render(request, "frontend/quotas/effect.html", effect)


@require_POST
@login_required
def save_batch(request: HttpRequest, flavor: uuid.UUID) -> HttpResponse:
    """Save all of the batch or nothing; the response to a refusal is a text, and the page stays as it is."""
    who = get_viewer(request)
    pool = tree_of(who, flavor)
    try:
        changes = _read_changes(who, pool, request.POST)
        revision = quota_change(
            acting_user=who,
            cell_id=pool.cluster.cell_id,
            changes=changes,
            reason=request.POST.get("reason", "").replace("\x00", "")[:500],
            shrink=_shrink(request),
        )
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        return _refused(request, error, error.status)
    if revision is None:
        messages.info(request, _("No changes to save."))
    else:
        number = len({change.node.tenant_id for change in changes})
        said = ngettext("Quota of %(n)s tenant updated", "Quotas of %(n)s tenants updated", number)
        messages.success(request, said % {"n": number})
    return redirect(f"{reverse('frontend:ops-quota-tree')}?pool={pool.pk}")


def _shrink(request: HttpRequest) -> Shrink | None:
    chosen = request.POST.get("shrink", "")
    return Shrink(chosen) if chosen in list(Shrink) else None


def _refused(request: HttpRequest, error: AllotmentError, status: int) -> HttpResponse:
    """Return the refusal with the cells that it names, `edit.<node>.<key>`."""
    # A cell in GPUs sets three resources; its errors are reported once.
    by_cell = {one.field.partition(" ")[0]: one.message for one in reversed(error.errors)}
    lines = list(dict.fromkeys(reversed(by_cell.values()))) or [error.detail]
    page = {"lines": lines, "cells": [cell for cell in by_cell if cell.startswith(_PREFIX)]}
    return render(request, "frontend/quotas/tree_refused.html", page, status=status)


def _read_changes(who: User, pool: Flavor, data: Mapping[str, str]) -> list[NodeAmounts]:
    """Return the batch as changes of nodes.

    Raises: Invalid that names each cell that cannot be read; NotFound for a node out of sight.
    """
    size = pool_sizes([pool])[pool.pk]
    errors: list[FieldError] = []
    amounts: defaultdict[uuid.UUID, list[QuotaAmount]] = defaultdict(list)
    for name, text in data.items():
        if not name.startswith(_PREFIX):
            continue
        node_text, _dot, key = name.removeprefix(_PREFIX).partition(".")
        node = node_of(node_text)
        if node is None:
            raise NotFound
        try:
            amounts[node] += _amounts(pool, size, key, text.strip(), f"{name} ")
        except (Invalid, QuantityError) as error:
            message = str(error.errors[0].message if isinstance(error, Invalid) and error.errors else error)
            errors.append(FieldError(name, "AMOUNT", message))
    if errors:
        raise Invalid(errors[0].message, errors=errors)
    if len(amounts) > EDITS_MAX:
        raise Invalid(_("Maximum: %(limit)s tenants per change.") % {"limit": EDITS_MAX})
    nodes: dict[uuid.UUID, QuotaNode] = quota_nodes_get(who, set(amounts))
    changes = [NodeAmounts(nodes[pk], of, _version(data, pk)) for pk, of in amounts.items()]
    return extend_to_queues(changes)


def _version(data: Mapping[str, str], node: uuid.UUID) -> int:
    version = read_whole(data.get(f"version.{node}", ""))
    return -1 if version is None else version


def _amounts(pool: Flavor, size: PoolSize, key: str, text: str, place: str) -> list[QuotaAmount]:
    """Return the limits of one cell. Raises: Invalid, QuantityError."""
    if key == GPUS:
        column = gpu_column(pool, size)
        return amounts_of_compute(pool, size, _limit(text, lambda word: _points(word, column.unit)), place)
    if key not in _READERS:
        raise NotFound
    return [QuotaAmount(pool, Resource(key), _limit(text, _READERS[key]), place=place)]


def _limit(text: str, read: Callable[[str], int]) -> Amount:
    return None if text.lower() in formats.UNLIMITED_WORDS else read(text)


def _points(text: str, unit: int) -> int:
    """Return percent points of compute for a number of GPUs, which may be a fraction."""
    amount = Decimal(text) * unit if _NUMBER.fullmatch(text) else None
    if amount is None or amount != amount.to_integral_value():
        raise Invalid(_("Enter a number of GPUs, for example 8."))
    return int(amount)


def _cards(text: str) -> int:
    number = read_whole(text, most=10**9)
    if number is None:
        raise Invalid(_("Enter a whole number."))
    return number


_READERS: Final[Mapping[str, Callable[[str], int]]] = {
    Resource.GPU_CARDS.value: _cards,
    Resource.GPU_MEMORY.value: parse_gibibytes,
    Resource.CPU.value: parse_cpu,
    Resource.MEMORY.value: parse_gibibytes,
}
