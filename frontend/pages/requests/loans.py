"""Loans between tenants: running and planned ones, lending, and ending early."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from foundation.core.quantities import Resource
from frontend.components.name_fields import QuotaNodeInput
from frontend.pages.quotas.typed_amounts import AmountField
from frontend.pages.requests import labels
from frontend.pages.requests.loan_calendar import describe_calendar
from frontend.shell.form_actions import run_change, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import Override, OverrideState, QuotaNode
from quotas.selectors.changes.override import override_get, override_keys, read_overrides
from quotas.selectors.tables.node_names import read_typed_nodes
from quotas.selectors.tables.quota_tree import tree_flavors
from quotas.services.overrides.override import LoanAmount, override_create, override_end, override_move_end
from tenants.models import User

PER_PAGE = 20
_OPEN = (OverrideState.PLANNED, OverrideState.ACTIVE)
_MOMENT = {"type": "datetime-local"}


class LoanForm(forms.Form):
    """The form of a temporary quota: tenants, times, and amounts in the resource's own unit."""

    lender = forms.CharField(
        label=gettext_lazy("From tenant"),
        max_length=300,
        widget=QuotaNodeInput(),
        help_text=gettext_lazy("Type to search tenants and queues."),
    )
    borrower = forms.CharField(
        label=gettext_lazy("To tenant"),
        max_length=300,
        widget=QuotaNodeInput(),
        help_text=gettext_lazy("Type to search tenants and queues."),
    )
    pool = forms.ChoiceField(label=gettext_lazy("Pool"))
    gpus = forms.IntegerField(
        label=gettext_lazy("Number of GPUs"),
        required=False,
        min_value=1,
        max_value=10**6,
        help_text=gettext_lazy("Includes the compute and GPU memory of each GPU."),
    )
    starts_at = forms.DateTimeField(
        label=gettext_lazy("From"),
        required=False,
        widget=forms.DateTimeInput(attrs=_MOMENT),
        help_text=gettext_lazy("UTC. Leave empty to start now."),
    )
    ends_at = forms.DateTimeField(
        label=gettext_lazy("Until"),
        widget=forms.DateTimeInput(attrs=_MOMENT),
        help_text=gettext_lazy("UTC. Quota returns automatically."),
    )
    reason = forms.CharField(label=gettext_lazy("Reason"), required=False, max_length=500)

    def __init__(self, data: object = None, *, viewer: User, pools: Sequence[Flavor]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        self._viewer = viewer
        field = self.fields["pool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = [(str(pool.pk), pool.name) for pool in pools]
        for resource in (Resource.CPU, Resource.MEMORY):
            self.fields[resource.value] = AmountField(resource)

    def clean_lender(self) -> QuotaNode:
        """Return the quota that lends."""
        return self._read_node("lender")

    def clean_borrower(self) -> QuotaNode:
        """Return the quota that borrows."""
        return self._read_node("borrower")

    def _read_node(self, name: str) -> QuotaNode:
        typed = self.cleaned_data[name]
        found = read_typed_nodes(self._viewer, typed)
        if not found:
            raise forms.ValidationError(
                _("Tenant %(name)s not found, or you can't view it. Select one of the search results.")
                % {"name": typed}
            )
        if len(found) > 1:
            cells = ", ".join(f"{node.tenant.slug} ({node.cell.name})" for node in found)
            raise forms.ValidationError(_("Specify one of: %(names)s.") % {"names": cells})
        return found[0]

    @property
    def beside(self) -> list[forms.BoundField]:
        """The fields of resources that can be lent in addition to the GPUs."""
        return [self[Resource.CPU.value], self[Resource.MEMORY.value]]

    def list_amounts(self, pool: Flavor) -> list[LoanAmount]:
        """Return the lent amounts: GPUs as cards, compute and memory."""
        values = self.cleaned_data
        gpus = values.get("gpus") or 0
        wanted = {
            Resource.GPU_CARDS: gpus,
            Resource.GPU_CORES: gpus * 100,
            Resource.GPU_MEMORY: gpus * pool.card_memory_mib,
            Resource.CPU: values.get(Resource.CPU.value) or 0,
            Resource.MEMORY: values.get(Resource.MEMORY.value) or 0,
        }
        return [LoanAmount(pool, resource, amount) for resource, amount in wanted.items() if amount]


class EndForm(forms.Form):
    """The end of a temporary quota."""

    ends_at = forms.DateTimeField(
        label=gettext_lazy("Until"),
        widget=forms.DateTimeInput(attrs=_MOMENT, format="%Y-%m-%dT%H:%M"),
        help_text=gettext_lazy("UTC. Quota returns automatically."),
    )


@dataclass(frozen=True, slots=True)
class LoanRow:
    """One loan as text."""

    loan: Override
    lender: str
    borrower: str
    lines: Sequence[str]
    state: str
    tone: str
    is_open: bool
    end: EndForm
    short: str


@login_required
def show_loans(request: HttpRequest) -> HttpResponse:
    """Show the list and the form; POST lends, or ends a loan."""
    who = get_viewer(request)
    set_frame(request, label=_("Temporary quota"))
    pools = sorted(tree_flavors(who), key=lambda pool: (not pool.card_model, pool.name, str(pool.pk)))
    form, refusal = LoanForm(viewer=who, pools=pools), ""
    if request.method == "POST" and request.POST.get("do") in _ACTS:
        _ACTS[request.POST["do"]](request, who)
        return redirect("frontend:ops-loans")
    if request.method == "POST":
        form = LoanForm(request.POST, viewer=who, pools=pools)
        refusal = _lend(who, form, pools)
        if form.is_valid() and not refusal:
            messages.success(request, _("Temporary quota created"))
            return redirect("frontend:ops-loans")
    page = Paginator(override_keys(who), PER_PAGE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "form": form,
        "refusal": refusal,
        "page": page,
        "rows": [_row(loan) for loan in read_overrides(page)],
        "calendar": describe_calendar(who, clock.now()),
        "may_lend": bool(pools),
    }
    return render(
        request, "frontend/requests/loans.html", context, status=400 if request.method == "POST" else 200
    )


def _lend(who: User, form: LoanForm, pools: Sequence[Flavor]) -> str:
    """Create the loan; return the reason of a refusal, or an empty text."""
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    pool = next(pool for pool in pools if str(pool.pk) == values["pool"])
    try:
        override_create(
            acting_user=who,
            lender=values["lender"],
            borrower=values["borrower"],
            amounts=form.list_amounts(pool),
            starts_at=values["starts_at"],
            ends_at=values["ends_at"],
            reason=values["reason"],
        )
    except NotFound:
        raise
    except AllotmentError as error:
        for found in error.errors:
            if found.field in form.fields:
                form.add_error(found.field, found.message)
        return error.detail
    return ""


def _named(request: HttpRequest, who: User) -> Override:
    try:
        return override_get(who, uuid.UUID(request.POST.get("request", "")))
    except ValueError as error:
        raise NotFound from error


def _move_end(request: HttpRequest, who: User) -> None:
    found = _named(request, who)
    form = EndForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Enter an end time, for example 2026-12-31 18:00."))
        return
    move = partial(
        override_move_end,
        acting_user=who,
        override=found,
        ends_at=form.cleaned_data["ends_at"],
        version=version_of(request),
    )

    def describe_now() -> str:
        return _("Current end time: %(time)s.") % {"time": f"{found.ends_at:%Y-%m-%d %H:%M} UTC"}

    run_change(request, move, _("End time updated"), now=describe_now)


def _end(request: HttpRequest, who: User) -> None:
    found = _named(request, who)
    word = (
        _("Temporary quota ended. Quota returned.")
        if found.state == OverrideState.ACTIVE
        else _("Transfer canceled")
    )
    end = partial(override_end, acting_user=who, override=found, version=version_of(request))
    run_change(request, end, word)


_ACTS: Final[Mapping[str, Callable[[HttpRequest, User], None]]] = {"end": _end, "move": _move_end}


def _row(loan: Override) -> LoanRow:
    state, tone = labels.LOANS[loan.state]
    return LoanRow(
        loan=loan,
        lender=labels.node_word(loan.lender),
        borrower=labels.node_word(loan.borrower),
        lines=labels.loan_lines(loan.amounts.all()),
        state=str(state),
        tone=tone,
        is_open=loan.state in _OPEN,
        end=EndForm(initial={"ends_at": loan.ends_at}, auto_id=f"id_{loan.pk}_%s"),
        short=", ".join(f"{name}{_(': ')}{amount}" for name, amount in loan.returned.items()),
    )
