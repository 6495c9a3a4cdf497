"""Prices of pools: current, future and past ones."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, PermissionDenied
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.common_acts import build_delete_act
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts.formats import add_note
from quotas.selectors.pools.flavor import list_flavors
from telemetry.models import Price
from telemetry.usage.figures import PRICE_DIGITS
from telemetry.usage.prices import (
    PRICE_COLUMNS,
    PRICE_MAX,
    PriceState,
    annotate_state,
    price_create,
    price_delete,
    price_list,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_TONES: Final = {PriceState.CURRENT: "running", PriceState.UPCOMING: "info", PriceState.EXPIRED: "done"}


@dataclass(frozen=True, slots=True)
class PriceRow:
    """A price as text; `fixed` once it has taken effect."""

    price: Price
    gpu_hour: str
    slice_hour: str
    state: str
    tone: str
    fixed: bool

    @property
    def id(self) -> uuid.UUID:
        return self.price.pk

    @property
    def title(self) -> str:
        return f"{self.price.flavor.name}, {self.price.effective_at:%Y-%m-%d %H:%M}"


PRICES: Final = ListDeclaration(
    key="prices",
    title=gettext_lazy("Price list"),
    columns=(
        ListColumn(
            key="pool", label=gettext_lazy("Pool"), sort="flavor", text=lambda row: row.price.flavor.name
        ),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            sort="cluster",
            text=lambda row: row.price.flavor.cluster.name,
        ),
        ListColumn(
            key="effective",
            label=gettext_lazy("Effective from"),
            sort="effective_at",
            text=lambda row: row.price.effective_at,
        ),
        ListColumn(
            key="gpu_hour",
            label=gettext_lazy("GPU-hour"),
            number=True,
            sort="gpu_hour",
            text=lambda row: row.price.gpu_hour,
        ),
        ListColumn(
            key="slice_hour",
            label=gettext_lazy("GPU-hour of slices"),
            number=True,
            text=lambda row: row.price.slice_hour,
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda row: row.state),
    ),
    filters={
        "flavor": FilterField(label=gettext_lazy("Pool")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "state": FilterField(label=gettext_lazy("State"), choices=PriceState.choices),
        "effective_at": FilterField(label=gettext_lazy("Effective from")),
    },
    fields={
        **PRICE_COLUMNS,
        "state": Column("state"),
        "gpu_hour": Column("gpu_hour", ColumnKind.NUMBER),
    },
    every_s=0,
)


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
        for name in ("gpu_hour", "slice_hour"):
            self.fields[name].label = add_note(self.fields[name].label, settings.ALLOTMENT_CURRENCY)
        flavor = self.fields["flavor"]
        assert isinstance(flavor, forms.ChoiceField)  # noqa: S101
        flavor.choices = [(str(pool.pk), f"{pool.name} ({pool.cluster.name})") for pool in pools]


@operator_required
def show_prices(request: HttpRequest) -> HttpResponse:
    """Show all prices, the latest of each pool first; POST creates one or deletes those not in effect yet."""
    who = get_viewer(request)
    set_frame(request, label=_("Prices"), trail=_("Operations"))
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    acts = [_delete_act(who)] if may_edit else []
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who), back=request.path)
    listing = read_list(request, PRICES)
    pools = [flavor for flavor in list_flavors() if flavor.card_model]
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _create(request, who, pools)
        if refused is None:
            return redirect(listing.address)
    if listing.form_of and not may_edit:
        raise PermissionDenied
    prices = price_list(who)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(annotate_state(prices, now=clock.now())),
        _rows,
        template="frontend/usage/prices.html",
        context=lambda: {
            "row": "frontend/usage/price_row.html",
            "acts": acts,
            "batch_url": request.path,
            "may_edit": may_edit,
            "open_form": refused or (_form(PriceForm(pools=pools)) if listing.form_of == NEW else None),
            "currency": settings.ALLOTMENT_CURRENCY,
            "unpriced": _unpriced(pools, set(prices.order_by().values_list("flavor", flat=True))),
            "empty_list": EmptyList(
                _("No prices"),
                _("Reports show GPU-hours without cost. A platform admin can create prices."),
                icon="tag",
            ),
        },
        status=400 if refused else 200,
    )


def _unpriced(pools: Sequence[Flavor], priced: Collection[uuid.UUID]) -> list[Flavor]:
    return [pool for pool in pools if pool.pk not in priced]


def _form(form: PriceForm) -> RowForm:
    word = _("Create price")
    return RowForm(title=word, do="create", button=word, form=form, fields="frontend/usage/price_fields.html")


def _create(request: HttpRequest, who: User, pools: Sequence[Flavor]) -> RowForm | None:
    """Create a price; return the form if it is refused."""
    permissions.require_permission(who, Permission.CLUSTER_EDIT)
    form = PriceForm(request.POST, pools=pools)
    if not form.is_valid():
        return _form(form)
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
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form)
    messages.success(request, _("Price created"))
    return None


def _delete_act(who: User) -> BatchAct:
    return build_delete_act(
        _("Delete prices"),
        lambda price: price_delete(acting_user=who, price=price, now=clock.now()),
        _("The price has not taken effect. Reports don't change."),
    )


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = _rows(annotate_state(price_list(who).filter(pk__in=ids), now=clock.now()))
    return [BatchItem(id=row.id, name=row.title, row=row.price, state=row.state) for row in found]


def _rows(found: Any) -> list[PriceRow]:
    """Return the lines of prices with their state."""
    return [
        PriceRow(
            price,
            _amount(price.gpu_hour),
            _amount(price.slice_hour),
            str(PriceState(price.state).label),
            _TONES[PriceState(price.state)],
            price.state != PriceState.UPCOMING,
        )
        for price in found
    ]


def _amount(value: Any) -> str:
    """Return a price without trailing zeros, but with two decimals."""
    if value is None:
        return _("as GPU-hour")
    text = f"{value:,.6f}".rstrip("0")
    whole, _point, part = text.partition(".")
    return f"{whole}.{part:0<2}"
