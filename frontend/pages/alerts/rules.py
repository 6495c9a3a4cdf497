"""Alert rules: list, create, change, enable, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from alerts.delivery.messages import describe_condition, format_seconds, format_value
from alerts.models import Alert, AlertRule, AlertSeverity
from alerts.selectors.alerts import get_row, list_channels, list_rules
from alerts.selectors.preview import RulePreview, preview_rule
from alerts.services.recommended import create_recommended_rules
from alerts.services.rule import change_rule, create_rule, delete_rule
from clusters.selectors.node import cluster_list
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from frontend.pages.alerts.place import AlertSection, enter_place
from frontend.pages.alerts.rule_form import RuleForm
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import login_required

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class AlertRuleRow:
    """One rule in words, with the form that changes it for who may."""

    rule: AlertRule
    condition: str
    hold: str
    severity: str
    severity_tone: str
    channels: str
    form: RuleForm | None


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The subjects that a rule would find now, in words."""

    sentence: str
    examples: list[tuple[str, str]]
    unreadable: bool


def show_rules(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the rules; POST changes one."""
    make_form = _form_maker(place)
    form, preview = make_form(), None
    if request.method == "POST":
        what = request.POST.get("do", "")
        if what in ("create", "preview"):
            form = make_form(request.POST)
            if form.is_valid() and what == "preview":
                preview = _preview(place, form)
            elif _create(place, form):
                messages.success(request, _("Rule created. It's evaluated every 15 seconds."))
                return redirect(place.url)
        elif what == "recommend" and place.tenant is None:
            made = create_recommended_rules(acting_user=place.who)
            messages.success(request, _("%(count)d rules created") % {"count": len(made)})
            return redirect(place.url)
        else:
            _act(request, place, what)
            return redirect(place.url)
    rows = list_rules(place.who, place.tenant)
    context = place.make_context(
        rows=[_make_row(rule, make_form if place.may_edit else None) for rule in rows],
        form=form,
        preview=preview,
    )
    status = 400 if request.method == "POST" and preview is None else 200
    return render(request, "frontend/alerts/rules.html", context, status=status)


FormMaker = Callable[..., RuleForm]


def _form_maker(place: AlertSection) -> FormMaker:
    """Return what makes forms; clusters and channels are read once for all of a page."""
    clusters = list(cluster_list(viewer=place.who)) if place.tenant is None else []
    channels = list(list_channels(place.who, place.tenant))
    return partial(RuleForm, tenant=place.tenant, clusters=clusters, channels=channels)


def _make_row(rule: AlertRule, make_form: FormMaker | None) -> AlertRuleRow:
    tones = {AlertSeverity.CRITICAL: "failed", AlertSeverity.WARNING: "waiting", AlertSeverity.INFO: "info"}
    as_alert = Alert(metric=rule.metric, comparison=rule.comparison, threshold=rule.threshold)
    return AlertRuleRow(
        rule=rule,
        condition=describe_condition(as_alert),
        hold=format_seconds(rule.hold_s) if rule.hold_s else "",
        severity=str(AlertSeverity(rule.severity).label),
        severity_tone=tones[AlertSeverity(rule.severity)],
        channels=", ".join(sorted(channel.name for channel in rule.channels.all())),
        form=make_form(rule=rule) if make_form is not None else None,
    )


def _preview(place: AlertSection, form: RuleForm) -> ShownPreview:
    values, _channels = form.get_values()
    rule = AlertRule(tenant=place.tenant, **values)
    found: RulePreview = preview_rule(place.who, rule, now=clock.now())
    words = {"meeting": len(found.meeting), "subjects": found.subjects, "unknown": found.unknown}
    sentence = _("%(meeting)d of %(subjects)d subjects meet the condition now.") % words
    if found.unknown:
        sentence += " " + _("%(unknown)d have no current value.") % words
    examples = [(each.label, format_value(rule.metric, each.value)) for each in found.meeting[:_SHOWN]]
    return ShownPreview(sentence, examples, found.unreadable)


def _create(place: AlertSection, form: RuleForm) -> bool:
    if not form.is_valid():
        return False
    values, channels = form.get_values()
    try:
        create_rule(acting_user=place.who, tenant=place.tenant, values=values, channels=channels)
    except AllotmentError as error:
        show_refusal(form, error)
        return False
    return True


def _act(request: HttpRequest, place: AlertSection, what: str) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    rule = get_row(list_rules(place.who, place.tenant), pk)
    version = version_of(request)
    if what == "delete":
        run_change(
            request,
            partial(delete_rule, acting_user=place.who, rule=rule, version=version),
            _("Rule deleted"),
        )
        return
    values: dict[str, Any] = {"enabled": what == "enable"}
    channels = None
    if what == "change":
        form = _form_maker(place)(request.POST, rule=rule)
        if not form.is_valid():
            for name, texts in form.errors.items():
                messages.error(request, f"{form.fields[name].label}: {' '.join(map(str, texts))}")
            return
        values, channels = form.get_values()
    word = {"enable": _("Rule enabled"), "disable": _("Rule disabled")}.get(what, _("Rule updated"))
    change = partial(
        change_rule, acting_user=place.who, rule=rule, values=values, channels=channels, version=version
    )
    run_change(request, change, word)


@login_required
def workspace_rules(request: HttpRequest, workspace: str) -> HttpResponse:
    """Rules of a workspace."""
    return show_rules(request, enter_place(request, workspace, "alert-rules"))


@login_required
def ops_rules(request: HttpRequest) -> HttpResponse:
    """Rules of the platform."""
    return show_rules(request, enter_place(request, None, "alert-rules"))
