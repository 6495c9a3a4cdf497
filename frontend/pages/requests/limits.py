"""Limits of a workspace beside its quota: budgets, GPU-hours by month, and limits of its users."""

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

from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from foundation.core.quantities import Resource
from frontend.components.name_fields import PeopleInput
from frontend.pages.quotas.rows import TITLES
from frontend.pages.quotas.typed_amounts import describe_invalid, read_typed
from frontend.pages.requests.budget_list import budget_row
from frontend.shell.form_actions import run_change, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from quotas.models import UserLimit
from quotas.selectors.tenants.budget import gpu_hours_by_month, workspace_budgets
from quotas.selectors.tenants.user_limit import user_limit_get, user_limit_list
from quotas.services.user_limit import user_limit_change, user_limit_create, user_limit_delete
from quotas.texts.amounts import format_amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

_MONTHS = 12


class LimitForm(forms.Form):
    """A limit of one user, or of all users without a limit of their own."""

    user = forms.CharField(
        label=gettext_lazy("User"),
        required=False,
        max_length=150,
        widget=PeopleInput(),
        help_text=gettext_lazy("Leave empty for all users without their own limit."),
    )
    resource = forms.ChoiceField(
        label=gettext_lazy("Resource"),
        choices=[(resource.value, title) for resource, title in TITLES.items()],
        initial=Resource.GPU_CARDS.value,
    )
    amount = forms.CharField(
        label=gettext_lazy("Maximum"),
        required=False,
        max_length=40,
        help_text=gettext_lazy(
            "Compute in percent of a GPU, memory in GiB, CPU in cores. Leave empty for unlimited."
        ),
    )

    def clean(self) -> dict[str, Any]:
        """Read the amount in the unit of its resource."""
        values = super().clean() or {}
        text = str(values.get("amount", "")).strip()
        text = "" if text.lower() in formats.UNLIMITED_WORDS else text
        if "resource" in values:
            resource = Resource(values["resource"])
            values["amount"] = read_typed(resource, text) if text else None
            if text and values["amount"] is None:
                self.add_error("amount", describe_invalid(resource))
        return values


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit as text."""

    limit: UserLimit
    user: str
    resource: str
    amount: str


@login_required
def show_limits(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show budgets, GPU-hours and limits; POST sets or deletes a limit."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    set_frame(request, place)
    form, refusal = LimitForm(), ""
    if request.method == "POST" and request.POST.get("do") == "delete":
        _delete(request, who, place)
        return redirect("frontend:workspace-limits", workspace=workspace)
    if request.method == "POST":
        form = LimitForm(request.POST)
        refusal = _set(who, place, form)
        if form.is_valid() and not refusal:
            messages.success(request, _("User limit created. Running jobs aren't affected."))
            return redirect("frontend:workspace-limits", workspace=workspace)
    now = clock.now()
    months = gpu_hours_by_month(who, place, now=now)
    context: dict[str, Any] = {
        "workspace": place,
        "rows": [budget_row(use) for use in workspace_budgets(who, place, now=now)],
        "months": months[: _MONTHS * 4],
        "limits": _rows(user_limit_list(who, place)),
        "form": form,
        "refusal": refusal,
        "may_edit": permissions.has_permission(who, Permission.QUOTA_EDIT, place),
    }
    return render(
        request, "frontend/requests/limits.html", context, status=400 if request.method == "POST" else 200
    )


def _set(who: User, place: Tenant, form: LimitForm) -> str:
    """Set a limit, or change an existing one; return the reason of a refusal, or an empty text."""
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    name, amount = values["user"].strip(), values["amount"]
    same = user_limit_list(who, place).filter(resource=values["resource"])
    there = same.filter(user__username=name).first() if name else same.filter(user=None).first()
    try:
        if there is not None:
            user_limit_change(acting_user=who, limit=there, amount=amount)
            return ""
        resource = Resource(values["resource"])
        user_limit_create(acting_user=who, workspace=place, username=name, resource=resource, amount=amount)
    except NotFound:
        raise
    except AllotmentError as error:
        for found in error.errors:
            if found.field in form.fields:
                form.add_error(found.field, found.message)
        return error.detail
    return ""


def _delete(request: HttpRequest, who: User, place: Tenant) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    found = user_limit_get(who, place, pk)

    def describe_now() -> str:
        amount = format_amount(Resource(found.resource), found.amount)
        return _("Limit is now %(amount)s.") % {"amount": amount}

    delete = partial(user_limit_delete, acting_user=who, limit=found, version=version_of(request))
    run_change(request, delete, _("User limit deleted"), now=describe_now)


def _rows(limits: Sequence[UserLimit] | Any) -> list[LimitRow]:
    return [
        LimitRow(
            limit=limit,
            user=limit.user.username if limit.user else _("All users"),
            resource=str(TITLES[Resource(limit.resource)]),
            amount=format_amount(Resource(limit.resource), limit.amount),
        )
        for limit in limits
    ]
