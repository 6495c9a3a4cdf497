"""Scheduling domains, and how each of them shares unused quota."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from clusters.models import Sharing
from clusters.selectors.cell import cell_get, cell_list
from clusters.services.cell import cell_set
from frontend.pages.estimates.change_estimate import offer_estimate, show_requested, wants_estimate
from frontend.shell.form_actions import run_change, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.queue_rules import SHARING
from scheduling.services.policy_effect import preview_sharing
from scheduling.services.start_estimate.change_request import request_sharing_estimate
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


class SharingForm(forms.Form):
    """The form of a dialog: the sharing of unused quota."""

    sharing = forms.ChoiceField(choices=Sharing.choices)


@login_required
def show_cells(request: HttpRequest) -> HttpResponse:
    """Render the scheduling domains; POST changes the sharing of one."""
    who = get_viewer(request)
    found = cell_list(viewer=who)
    if request.method == "POST":
        _change_sharing(request, who)
        return redirect("frontend:ops-cells")
    set_frame(request, label=_("Scheduling domains"), trail=_("Operations"))
    page = {
        "cells": [(cell, *SHARING[cell.sharing]) for cell in found],
        "choices": [(value, *texts) for value, texts in SHARING.items()],
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
    }
    return render(request, "frontend/policies/cells.html", page)


@require_POST
@login_required
def check_sharing(request: HttpRequest) -> HttpResponse:
    """Preview the sharing that is selected; writes nothing."""
    who = get_viewer(request)
    cell = cell_get(viewer=who, name=request.POST.get("cell", ""))
    form = SharingForm(request.POST)
    effect: dict[str, Any] = {"refusal": _("Select a kind of sharing.")}
    if form.is_valid():
        sharing = Sharing(form.cleaned_data["sharing"])
        change: dict[str, Any] = {"acting_user": who, "cell": cell, "sharing": sharing}
        if wants_estimate(request):
            return show_requested(request, partial(request_sharing_estimate, **change))
        effect = {"preview": preview_sharing(**change), **offer_estimate(request)}
    return render(request, "frontend/policies/effect.html", effect)


def _change_sharing(request: HttpRequest, who: User) -> None:
    cell = cell_get(viewer=who, name=request.POST.get("cell", ""))
    form, expected = SharingForm(request.POST), version_of(request)
    if not form.is_valid():
        messages.error(request, _("Select a kind of sharing."))
        return
    sharing = Sharing(form.cleaned_data["sharing"])
    word = _("%(cell)s now uses %(sharing)s sharing") % {
        "cell": cell.name,
        "sharing": str(SHARING[sharing.value][0]).lower(),
    }
    run_change(
        request, lambda: cell_set(acting_user=who, cell=cell, sharing=sharing, expected=expected), word
    )
