"""Budgets of GPU-hours: their use, and setting and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, PermissionDenied
from foundation.core.numbers import read_whole
from frontend.components.long_select import LongSelect
from frontend.lists.batch import answer_batch, is_batch
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.requests import labels
from frontend.pages.requests.budget_list import BUDGETS, batch_acts, find_budgets, list_rows, may_change
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from quotas.models import Budget, BudgetAction
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.tenants.budget import budget_get, budget_list
from quotas.services.budget import HOURS_MAX, budget_change, budget_create
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import TenantChoice, tenant_choices, tenant_get


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
        """Return the percentages."""
        parts = [part.strip() for part in self.cleaned_data["thresholds"].split(",") if part.strip()]
        found = [read_whole(part, most=999) for part in parts]
        if None in found:
            raise forms.ValidationError(_("Enter comma-separated whole numbers, for example 80, 95."))
        return [number for number in found if number is not None]


class NewBudgetForm(BudgetForm):
    """The form of a new budget, with its tenant and pool."""

    tenant = forms.ChoiceField(label=gettext_lazy("Tenant"), widget=LongSelect())
    flavor = forms.ChoiceField(label=gettext_lazy("Pool"), required=False)
    field_order = ("tenant", "flavor")

    def __init__(
        self, data: object = None, *, tenants: Sequence[TenantChoice], pools: Sequence[Flavor]
    ) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        tenant, flavor = self.fields["tenant"], self.fields["flavor"]
        assert isinstance(tenant, forms.ChoiceField) and isinstance(flavor, forms.ChoiceField)  # noqa: S101
        tenant.choices = [(str(each.pk), each.name) for each in tenants]
        flavor.choices = [("", _("All pools")), *((str(pool.pk), pool.name) for pool in pools)]


@login_required
def show_budgets(request: HttpRequest) -> HttpResponse:
    """Show all budgets in sight with their bars; POST sets, changes or deletes one."""
    who = get_viewer(request)
    set_frame(request, label=_("Budgets"))
    acts = batch_acts(who)
    if is_batch(request):
        find = partial(find_budgets, who)
        return answer_batch(request, acts=acts, find=find, back=reverse("frontend:ops-budgets"))
    listing = read_list(request, BUDGETS)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, who)
        if refused is None:
            return redirect(listing.address)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(budget_list(who, now=clock.now())),
        partial(list_rows, who),
        template="frontend/requests/budgets.html",
        context=lambda: {
            "row": "frontend/requests/budget_row.html",
            "empty_list": EmptyList(
                _("No budgets"), _("Without a budget, usage is limited by quota only."), icon="gauge"
            ),
            "acts": acts,
            "edits": bool(acts),
            "batch_url": request.path,
            "open_form": refused or _open_form(who, listing.form_of, bool(acts)),
            "month": clock.now(),
        },
        status=400 if refused else 200,
    )


def _open_form(who: User, asked: str, may_create: bool) -> RowForm | None:
    """Return the form that the address names. Raises: NotFound, PermissionDenied for a viewer who may not
    send it.
    """
    if not asked:
        return None
    if asked == NEW:
        if not may_create:
            raise PermissionDenied
        return _new_form(NewBudgetForm(tenants=_tenants(who), pools=_pools()))
    budget = budget_get(who, id_of(asked))
    if not may_change(who, budget):
        raise PermissionDenied
    values = {
        "gpu_hours": budget.gpu_hours,
        "action": budget.action,
        "thresholds": ", ".join(map(str, budget.thresholds)),
    }
    return _change_form(BudgetForm(initial=values), budget, budget.version)


def _new_form(form: NewBudgetForm) -> RowForm:
    fields = "frontend/requests/budget_fields.html"
    return RowForm(title=_("Create budget"), do="set", button=_("Create budget"), form=form, fields=fields)


def _change_form(form: BudgetForm, budget: Budget, version: int) -> RowForm:
    words = {"name": budget.tenant.name, "pool": budget.flavor.name if budget.flavor else _("All pools")}
    return RowForm(
        title=_("Budget of %(name)s: %(pool)s") % words,
        do="change",
        button=_("Save"),
        form=form,
        row=str(budget.pk),
        version=version,
    )


def _tenants(who: User) -> list[TenantChoice]:
    """Return the tenants whose budgets the viewer may set: those below tenants where they assign quota."""
    tenants = tenant_choices(viewer=who)
    if permissions.has_permission(who, Permission.QUOTA_EDIT):
        return tenants
    above = set(permissions.tenants_with(who, Permission.QUOTA_EDIT).values_list("pk", flat=True))
    return [tenant for tenant in tenants if tenant.parent_id in above]


def _pools() -> list[Flavor]:
    return [flavor for flavor in list_flavors() if flavor.card_model]


def _save(request: HttpRequest, who: User) -> RowForm | None:
    """Set or change a budget; return the form if it is refused."""
    if request.POST.get("do") == "change":
        return _change(request, who, budget_get(who, id_of(request.POST.get("row", ""))))
    tenants, pools = _tenants(who), _pools()
    form = NewBudgetForm(request.POST, tenants=tenants, pools=pools)
    if not form.is_valid():
        return _new_form(form)
    values = form.cleaned_data
    try:
        budget_create(
            acting_user=who,
            tenant=tenant_get(viewer=who, tenant_id=id_of(values["tenant"])),
            flavor=next((pool for pool in pools if str(pool.pk) == values["flavor"]), None),
            gpu_hours=values["gpu_hours"],
            action=BudgetAction(values["action"]),
            thresholds=values["thresholds"],
        )
    except AllotmentError as error:
        show_refusal(form, error)
        return _new_form(form)
    messages.success(request, _("Budget created. Usage of this month is included."))
    return None


def _change(request: HttpRequest, who: User, found: Budget) -> RowForm | None:
    form, version = BudgetForm(request.POST), version_of(request)
    if form.is_valid():
        try:
            budget_change(acting_user=who, budget=found, changes=form.cleaned_data, version=version)
        except AllotmentError as error:
            show_refusal(form, error, now=partial(_now, found))
        else:
            messages.success(request, _("Budget updated"))
            return None
    return _change_form(form, found, version)


def _now(budget: Budget) -> str:
    """Return the present state of a budget, for the message about a concurrent change."""
    words_of = {
        "hours": formats.format_number(budget.gpu_hours),
        "action": str(labels.ACTIONS[budget.action]),
    }
    return _("Current: %(hours)s GPU-hours per month. When exhausted: %(action)s.") % words_of
