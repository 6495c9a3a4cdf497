"""Prices of pools: what holds now, what will, and what did."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.shell.form_actions import run_change
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from quotas.selectors.flavor import list_flavors
from telemetry.models import Price
from telemetry.usage.prices import PRICE_DIGITS, PRICE_MAX, price_create, price_delete, price_get, price_list
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


class PriceForm(forms.Form):
    """A new price."""

    flavor = forms.ChoiceField(label=gettext_lazy("Pool"))
    gpu_hour = forms.DecimalField(
        label=gettext_lazy("Price per GPU-hour"),
        min_value=0,
        max_value=PRICE_MAX,
        decimal_places=PRICE_DIGITS,
    )
    slice_hour = forms.DecimalField(
        label=gettext_lazy("Price per GPU-hour of slices"),
        required=False,
        min_value=0,
        max_value=PRICE_MAX,
        decimal_places=PRICE_DIGITS,
        help_text=gettext_lazy("For 100 %; 1 % costs a hundredth. Leave empty to use the price above."),
    )
    effective_at = forms.DateTimeField(
        label=gettext_lazy("Effective from"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("In the past only for a pool without a price until now. Time zone: UTC."),
    )

    def __init__(self, data: object = None, *, pools: Sequence[Flavor]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        flavor = self.fields["flavor"]
        assert isinstance(flavor, forms.ChoiceField)  # noqa: S101
        flavor.choices = [(str(pool.pk), f"{pool.name} ({pool.cluster.name})") for pool in pools]


@dataclass(frozen=True, slots=True)
class PriceRow:
    """A price in words; `state` is `now`, `later` or `past`."""

    price: Price
    gpu_hour: str
    slice_hour: str
    state: str


@operator_required
def show_prices(request: HttpRequest) -> HttpResponse:
    """All prices; POST creates one or deletes one that has not taken effect."""
    who = get_viewer(request)
    set_frame(request, label=_("Prices"), trail=_("Operations"))
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    pools = [flavor for flavor in list_flavors() if flavor.card_model]
    form, refusal = PriceForm(pools=pools), ""
    if request.method == "POST":
        if not may_edit:
            raise PermissionDenied
        if request.POST.get("do") == "delete":
            _delete(request, who)
            return redirect("frontend:ops-prices")
        form = PriceForm(request.POST, pools=pools)
        refusal = _create(who, form, pools)
        if form.is_valid() and not refusal:
            messages.success(request, _("Price created"))
            return redirect("frontend:ops-prices")
    found = list(price_list(who))
    priced = {price.flavor_id for price in found}
    context: dict[str, Any] = {
        "rows": _rows(found),
        "form": form,
        "refusal": refusal,
        "may_edit": may_edit,
        "currency": settings.ALLOTMENT_CURRENCY,
        "unpriced": [pool for pool in pools if pool.pk not in priced],
    }
    return render(
        request, "frontend/usage/prices.html", context, status=400 if request.method == "POST" else 200
    )


def _create(who: User, form: PriceForm, pools: Sequence[Flavor]) -> str:
    """Create a price; returns why it could not be, else nothing."""
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    try:
        price_create(
            acting_user=who,
            flavor=next(pool for pool in pools if str(pool.pk) == values["flavor"]),
            gpu_hour=values["gpu_hour"],
            slice_hour=values["slice_hour"],
            effective_at=values["effective_at"],
            now=clock.now(),
        )
    except NotFound:
        raise
    except AllotmentError as error:
        return error.detail
    return ""


def _delete(request: HttpRequest, who: User) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    found = price_get(who, pk)
    run_change(
        request, partial(price_delete, acting_user=who, price=found, now=clock.now()), _("Price deleted")
    )


def _rows(found: Sequence[Price]) -> list[PriceRow]:
    now, seen, rows = clock.now(), set(), list[PriceRow]()
    for price in found:  # the latest of each pool first
        state = "later" if price.effective_at > now else "past" if price.flavor_id in seen else "now"
        if state == "now":
            seen.add(price.flavor_id)
        rows.append(PriceRow(price, _amount(price.gpu_hour), _amount(price.slice_hour), state))
    return rows


def _amount(value: Any) -> str:
    """A price without the zeros at its end, but with two decimals."""
    if value is None:
        return _("as GPU-hour")
    text = f"{value:,.6f}".rstrip("0")
    whole, _point, part = text.partition(".")
    return f"{whole}.{part:0<2}"
