"""Budgets of GPU-hours: how far each is used up, setting and changing them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from foundation.core.numbers import read_whole
from frontend.pages.requests import labels
from frontend.shell.form_actions import run_change, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from quotas.models import Budget, BudgetAction
from quotas.selectors.budget import BudgetUse, budget_get, budget_list
from quotas.selectors.flavor import list_flavors
from quotas.services.budget import HOURS_MAX, budget_change, budget_create, budget_delete
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import tenant_list

_TONES = {"ok": "running", "warning": "waiting", "exhausted": "failed"}


class BudgetForm(forms.Form):
    """The fields of a budget that can be changed."""

    gpu_hours = forms.IntegerField(
        label=gettext_lazy("GPU-hours per month"), min_value=0, max_value=HOURS_MAX
    )
    action = forms.ChoiceField(label=gettext_lazy("When exhausted"), choices=list(labels.ACTIONS.items()))
    thresholds = forms.CharField(
        label=gettext_lazy("Alert thresholds (%)"),
        required=False,
        initial="80, 95",
        max_length=40,
        help_text=gettext_lazy("Up to five values from 1 to 99, comma-separated"),
    )

    def clean_thresholds(self) -> list[int]:
        """The percentages."""
        parts = [part.strip() for part in self.cleaned_data["thresholds"].split(",") if part.strip()]
        found = [read_whole(part, most=999) for part in parts]
        if None in found:
            raise forms.ValidationError(_("Enter comma-separated whole numbers, for example 80, 95."))
        return [number for number in found if number is not None]


class NewBudgetForm(BudgetForm):
    """And whose it is, of what."""

    tenant = forms.ChoiceField(label=gettext_lazy("Tenant"))
    flavor = forms.ChoiceField(label=gettext_lazy("Pool"), required=False)
    field_order = ("tenant", "flavor")

    def __init__(self, data: object = None, *, tenants: Sequence[Tenant], pools: Sequence[Flavor]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        tenant, flavor = self.fields["tenant"], self.fields["flavor"]
        assert isinstance(tenant, forms.ChoiceField) and isinstance(flavor, forms.ChoiceField)  # noqa: S101
        tenant.choices = [(str(each.pk), each.name) for each in tenants]
        flavor.choices = [("", _("All pools")), *((str(pool.pk), pool.name) for pool in pools)]


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget in words, with the form that changes it for who may."""

    use: BudgetUse
    name: str
    pool: str
    action: str
    state: str
    tone: str
    numbers: str
    steps: str
    form: BudgetForm | None = None


def budget_table_row(use: BudgetUse, *, form: BudgetForm | None = None) -> BudgetRow:
    """Return what tables show of a budget."""
    budget = use.budget
    states = {"ok": _("OK"), "warning": _("Near limit"), "exhausted": _("Exhausted")}
    return BudgetRow(
        use=use,
        name=budget.tenant.name,
        pool=budget.flavor.name if budget.flavor else _("All pools"),
        action=str(labels.ACTIONS[budget.action]),
        state=states[use.state],
        tone=_TONES[use.state],
        numbers=_("GPU-hours, %(percent)s") % {"percent": formats.format_percent(use.percent)},
        steps=", ".join(formats.format_percent(step) for step in budget.thresholds) or formats.MISSING,
        form=form,
    )


@login_required
def show_budgets(request: HttpRequest) -> HttpResponse:
    """All in sight with their bars; POST sets, changes or deletes one."""
    who = get_viewer(request)
    set_frame(request, label=_("Budgets"))
    tenants = [
        t for t in tenant_list(viewer=who) if permissions.has_permission(who, Permission.QUOTA_EDIT, t.parent)
    ]
    pools = [flavor for flavor in list_flavors() if flavor.card_model]
    form, refusal = NewBudgetForm(tenants=tenants, pools=pools), ""
    what = request.POST.get("do", "")
    if request.method == "POST" and what == "set":
        form = NewBudgetForm(request.POST, tenants=tenants, pools=pools)
        refusal = _set(who, form, tenants, pools)
        if form.is_valid() and not refusal:
            messages.success(request, _("Budget created. Usage of this month is included."))
            return redirect("frontend:ops-budgets")
    elif request.method == "POST":
        _act(request, who, what)
        return redirect("frontend:ops-budgets")
    mine = {tenant.pk for tenant in tenants}
    uses = budget_list(who, now=clock.now())
    context: dict[str, Any] = {
        "rows": [
            budget_table_row(use, form=_filled(use) if use.budget.tenant_id in mine else None) for use in uses
        ],
        "form": form,
        "refusal": refusal,
        "may_set": bool(tenants),
        "month": clock.now(),
    }
    return render(
        request, "frontend/requests/budgets.html", context, status=400 if request.method == "POST" else 200
    )


def _filled(use: BudgetUse) -> BudgetForm:
    budget = use.budget
    values = {
        "gpu_hours": budget.gpu_hours,
        "action": budget.action,
        "thresholds": ", ".join(map(str, budget.thresholds)),
    }
    return BudgetForm(initial=values, prefix=None, auto_id=f"id_{budget.pk}_%s")


def _set(who: User, form: NewBudgetForm, tenants: Sequence[Tenant], pools: Sequence[Flavor]) -> str:
    """Set a budget; why it could not be, else nothing."""
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    try:
        budget_create(
            acting_user=who,
            tenant=next(t for t in tenants if str(t.pk) == values["tenant"]),
            flavor=next((pool for pool in pools if str(pool.pk) == values["flavor"]), None),
            gpu_hours=values["gpu_hours"],
            action=BudgetAction(values["action"]),
            thresholds=values["thresholds"],
        )
    except NotFound:
        raise
    except AllotmentError as error:
        return error.detail
    return ""


def _act(request: HttpRequest, who: User, what: str) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    found = budget_get(who, pk)
    if what == "delete":
        word = _("Budget deleted")
        delete = partial(budget_delete, acting_user=who, budget=found, version=version_of(request))
        run_change(request, delete, word, now=partial(_now, found))
        return
    form = BudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
        return
    changes = {name: form.cleaned_data[name] for name in ("gpu_hours", "action", "thresholds")}
    run_change(
        request,
        lambda: budget_change(acting_user=who, budget=found, changes=changes, version=version_of(request)),
        _("Budget updated"),
        now=partial(_now, found),
    )


def _now(budget: Budget) -> str:
    """A budget as somebody else has left it."""
    words_of = {
        "hours": formats.format_number(budget.gpu_hours),
        "action": str(labels.ACTIONS[budget.action]),
    }
    return _("Current: %(hours)s GPU-hours per month. When exhausted: %(action)s.") % words_of
