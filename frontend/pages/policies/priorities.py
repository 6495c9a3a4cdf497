"""Priority classes, and which tenants may use the raised ones."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import PriorityClass, PriorityGrant
from scheduling.selectors.priority_grant import (
    priority_class_all,
    priority_class_get,
    priority_grant_get,
    priority_grant_list,
)
from scheduling.services.jobs.priority_class import (
    DEFAULT,
    VALUE_MAX,
    priority_class_create,
    priority_class_update,
)
from scheduling.services.jobs.priority_grant import priority_grant, priority_revoke
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import tenant_get, tenant_list


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A grant, and whether the viewer may take it back."""

    grant: PriorityGrant
    may_revoke: bool


class ClassForm(forms.Form):
    """A class to be."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    value = forms.IntegerField(
        label=gettext_lazy("Value"),
        min_value=-VALUE_MAX,
        max_value=VALUE_MAX,
        help_text=gettext_lazy("Values above 0 require a grant."),
    )
    description = forms.CharField(label=gettext_lazy("Description"), max_length=200, required=False)


@login_required
def show_priorities(request: HttpRequest) -> HttpResponse:
    """Classes and grants; POST makes, changes or retires a class, gives a grant or takes it back."""
    who = get_viewer(request)
    form = ClassForm()
    if request.method == "POST":
        answered = _act(request, who)
        if answered is None:
            return redirect("frontend:ops-priorities")
        form = answered
    edits = permissions.has_permission(who, Permission.QUEUE_EDIT)
    set_frame(request, label=_("Priorities"), trail=_("Operations"))
    page = {
        "classes": priority_class_all().annotate(granted=Count("grants")),
        "grants": [GrantLine(one, _above(who, one.tenant)) for one in priority_grant_list(viewer=who)],
        "raised": [one for one in priority_class_all() if one.value > 0 and one.retired_at is None],
        "tenants": [one for one in tenant_list(viewer=who) if _above(who, one)],
        "form": form,
        "may_edit": edits,
        "needed": DEFAULT,
    }
    return render(request, "frontend/policies/priorities.html", page, status=400 if form.errors else 200)


def _above(who: User, tenant: Tenant) -> bool:
    return permissions.has_permission(who, Permission.QUEUE_EDIT, tenant.parent)


def _act(request: HttpRequest, who: User) -> ClassForm | None:
    asked, what = request.POST, request.POST.get("do")
    if what == "make":
        return _made(request, who)
    if what == "grant":
        tenant = tenant_get(viewer=who, tenant_id=id_of(asked.get("tenant", "")))
        found = priority_class_get(asked.get("class", ""))
        word = _("%(name)s granted to %(tenant)s") % {"tenant": tenant.name, "name": found.name}
        run_change(
            request, lambda: priority_grant(acting_user=who, tenant=tenant, priority_class=found), word
        )
    elif what == "revoke":
        grant = priority_grant_get(viewer=who, pk=uuid.UUID(str(id_of(asked.get("grant", "")))))
        word = _("Grant revoked. Existing jobs keep their priority.")
        run_change(request, lambda: priority_revoke(acting_user=who, grant=grant), word)
    else:
        _change(request, who, priority_class_get(asked.get("class", "")))
    return None


def _made(request: HttpRequest, who: User) -> ClassForm | None:
    form = ClassForm(request.POST)
    if form.is_valid():
        try:
            made = priority_class_create(acting_user=who, **form.cleaned_data)
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            messages.success(request, _("Priority class %(name)s created") % {"name": made.name})
            return None
    return form


def _change(request: HttpRequest, who: User, found: PriorityClass) -> None:
    """A new value or description, retired, or brought back."""
    asked, what = request.POST, request.POST.get("do")
    expected = version_of(request)
    names = {"name": found.name}
    if what in ("retire", "restore"):
        word = _("%(name)s disabled") if what == "retire" else _("%(name)s enabled")
        retired = what == "retire"
        run_change(
            request,
            lambda: priority_class_update(
                acting_user=who, priority_class=found, retired=retired, expected=expected
            ),
            word % names,
        )
        return
    form = ClassForm({**asked.dict(), "name": found.name})
    if not form.is_valid():
        messages.error(request, _("The value of %(name)s must be a whole number.") % names)
        return
    values = {"value": form.cleaned_data["value"], "description": form.cleaned_data["description"]}
    run_change(
        request,
        lambda: priority_class_update(acting_user=who, priority_class=found, expected=expected, **values),
        _("%(name)s updated. Existing jobs aren't affected.") % names,
    )
