"""Silences: list, create, end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.delivery.messages import format_seconds
from alerts.models import AlertRule, AlertSeverity
from alerts.selectors.alerts import get_row, list_rules, list_silences
from alerts.services.silence import create_silence, end_silence
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from frontend.pages.alerts.place import AlertSection, enter_place
from frontend.shell.form_actions import run_change, show_refusal
from frontend.shell.page_shell import login_required

PER_PAGE = 20
_HOURS = (1, 2, 4, 8, 24, 72, 168)


class SilenceForm(forms.Form):
    """The form of a new silence: the alerts that it covers, and how long it lasts from now."""

    rule = forms.ChoiceField(label=gettext_lazy("Rule"), required=False)
    severity = forms.ChoiceField(
        label=gettext_lazy("Severity"),
        required=False,
        choices=[("", gettext_lazy("All")), *AlertSeverity.choices],
    )
    subject = forms.CharField(
        label=gettext_lazy("Subject"),
        required=False,
        max_length=300,
        help_text=gettext_lazy("As shown in the alert. Leave empty for all."),
    )
    hours = forms.TypedChoiceField(
        label=gettext_lazy("Duration"),
        coerce=int,
    )
    comment = forms.CharField(label=gettext_lazy("Comment"), required=False, max_length=300)

    def __init__(
        self, data: object = None, *, rules: Sequence[AlertRule], initial: dict[str, str] | None = None
    ) -> None:
        super().__init__(data, initial=initial)  # type: ignore[arg-type]
        self.rules = {str(rule.pk): rule for rule in rules}
        chosen: Any = self.fields["rule"]
        chosen.choices = [("", _("All rules")), *((pk, rule.name) for pk, rule in self.rules.items())]
        durations: Any = self.fields["hours"]
        durations.choices = [(hours, format_seconds(hours * 3600)) for hours in _HOURS]


def show_silences(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the silences; POST creates or ends one. The address can fill in rule and subject."""
    rules = list(list_rules(place.who, place.tenant))
    asked = {name: request.GET.get(name, "") for name in ("rule", "subject")}
    form = SilenceForm(rules=rules, initial=asked)
    if request.method == "POST" and request.POST.get("do") == "end":
        _end(request, place)
        return redirect(place.url)
    if request.method == "POST":
        form = SilenceForm(request.POST, rules=rules)
        if _create(place, form):
            messages.success(request, _("Silence created. Matching alerts send no notifications."))
            return redirect(place.url)
    page = Paginator(list_silences(place.who, place.tenant), PER_PAGE).get_page(request.GET.get("page"))
    context = place.make_context(page=page, form=form, now=clock.now())
    status = 400 if request.method == "POST" else 200
    return render(request, "frontend/alerts/silences.html", context, status=status)


def _create(place: AlertSection, form: SilenceForm) -> bool:
    if not form.is_valid():
        return False
    values = form.cleaned_data
    try:
        create_silence(
            acting_user=place.who,
            tenant=place.tenant,
            rule=form.rules.get(values["rule"]),
            severity=AlertSeverity(values["severity"]) if values["severity"] else None,
            subject=values["subject"].strip(),
            ends_at=clock.now() + timedelta(hours=values["hours"]),
            comment=values["comment"],
        )
    except AllotmentError as error:
        show_refusal(form, error)
        return False
    return True


def _end(request: HttpRequest, place: AlertSection) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    silence = get_row(list_silences(place.who, place.tenant), pk)
    run_change(request, partial(end_silence, acting_user=place.who, silence=silence), _("Silence ended"))


@login_required
def workspace_silences(request: HttpRequest, workspace: str) -> HttpResponse:
    """Silences of a workspace."""
    return show_silences(request, enter_place(request, workspace, "silences"))


@login_required
def ops_silences(request: HttpRequest) -> HttpResponse:
    """Silences of the platform."""
    return show_silences(request, enter_place(request, None, "silences"))
