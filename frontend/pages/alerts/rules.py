"""Alert rules: list, create, change, enable, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.delivery.messages import describe_condition, format_seconds
from alerts.models import Alert, AlertRule, AlertSeverity
from alerts.selectors.alerts import RULE_COLUMNS, get_row, list_channels, list_rules
from alerts.services.recommended import create_recommended_rules
from alerts.services.rule import change_rule, create_rule, delete_rule
from clusters.selectors.node import cluster_list
from foundation.core.errors import AllotmentError
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.common_acts import build_delete_act, build_switch_acts
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.alerts.place import AlertSection, answer_section, enter_place, make_row_form
from frontend.pages.alerts.rule_form import RuleForm, usable_metrics
from frontend.pages.alerts.rule_preview import ShownPreview, describe_preview
from frontend.pages.alerts.rule_problem import describe_problem, is_unevaluated
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import login_required
from frontend.texts.firing import SEVERITY_TONES


@dataclass(frozen=True, slots=True)
class AlertRuleRow:
    """One rule as text."""

    rule: Any  # an AlertRule with the numbers of its `firing` and `pending` alerts
    condition: str
    hold: str
    severity: str
    severity_tone: str
    channels: str
    state: str
    state_tone: str
    problem: str

    @property
    def id(self) -> uuid.UUID:
        found: uuid.UUID = self.rule.pk
        return found

    @property
    def title(self) -> str:
        return str(self.rule.name)


RULES: Final = ListDeclaration(
    key="rules",
    title=gettext_lazy("Rules"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Rule"), sort="name", text=lambda row: row.rule.name),
        ListColumn(
            key="condition", label=gettext_lazy("Condition"), shown=False, text=lambda row: row.condition
        ),
        ListColumn(
            key="severity", label=gettext_lazy("Severity"), sort="severity", text=lambda row: row.severity
        ),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            text=lambda row: row.state,
        ),
        ListColumn(key="channels", label=gettext_lazy("Channels"), text=lambda row: row.channels),
        ListColumn(
            key="firing",
            label=gettext_lazy("Firing"),
            number=True,
            sort="firing",
            text=lambda row: row.rule.firing,
        ),
        ListColumn(
            key="pending",
            label=gettext_lazy("Pending"),
            number=True,
            sort="pending",
            shown=False,
            text=lambda row: row.rule.pending,
        ),
        ListColumn(
            key="evaluated",
            label=gettext_lazy("Evaluated"),
            sort="evaluated_at",
            text=lambda row: row.rule.evaluated_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Rule")),
        "metric": FilterField(
            label=gettext_lazy("Metric"),
            choices=[(metric.name, metric.label) for metric in usable_metrics(None)],
        ),
        "severity": FilterField(
            label=gettext_lazy("Severity"), choices=[(each.value, each.label) for each in AlertSeverity]
        ),
        "enabled": FilterField(label=gettext_lazy("Enabled")),
        "firing": FilterField(label=gettext_lazy("Firing")),
    },
    fields={
        **RULE_COLUMNS,
        "pending": Column("pending", ColumnKind.NUMBER),
        "enabled": Column("enabled", ColumnKind.FLAG),
        "evaluated_at": Column("evaluated_at", ColumnKind.TIME),
    },
    default_sort="name",
    every_s=30,
)


def show_rules(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the rules; POST creates or changes one, or enables, disables or deletes some."""
    acts = _acts(place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, place), back=place.url)
    listing = read_list(request, RULES)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, place)
        if refused is None:
            return redirect(listing.address)
    rules = list_rules(place.who, place.tenant)
    hint = _("A rule compares a metric with a threshold and notifies channels.")
    return answer_section(
        request,
        place,
        listing,
        rules,
        lambda found: [_make_row(rule) for rule in found],
        acts=acts,
        refused=refused,
        open_form=lambda: _open_form(place, listing.form_of),
        edits=place.may_edit,
        row="frontend/alerts/rule_row.html",
        add_label=_("Create rule"),
        recommends=place.tenant is None and not rules.exists(),
        empty_list=EmptyList(_("No rules"), hint, icon="bell"),
    )


def _form_maker(place: AlertSection) -> Callable[..., RuleForm]:
    """Return a function that creates forms; clusters and channels are read once."""
    clusters = list(cluster_list(viewer=place.who)) if place.tenant is None else []
    channels = list(list_channels(place.who, place.tenant))
    return partial(RuleForm, tenant=place.tenant, clusters=clusters, channels=channels)


def _make_row(rule: AlertRule) -> AlertRuleRow:
    as_alert = Alert(metric=rule.metric, comparison=rule.comparison, threshold=rule.threshold)
    return AlertRuleRow(
        rule=rule,
        condition=describe_condition(as_alert),
        hold=format_seconds(rule.hold_s) if rule.hold_s else "",
        severity=str(AlertSeverity(rule.severity).label),
        severity_tone=SEVERITY_TONES[AlertSeverity(rule.severity)],
        channels=", ".join(sorted(channel.name for channel in rule.channels.all())),
        state=_name_state(rule),
        state_tone="failed" if is_unevaluated(rule) else "running" if rule.enabled else "done",
        problem=describe_problem(rule),
    )


def _name_state(rule: AlertRule) -> str:
    if is_unevaluated(rule):
        return _("Not evaluated")
    return _("Enabled") if rule.enabled else _("Disabled")


def _rule(place: AlertSection, text: str) -> AlertRule:
    return get_row(list_rules(place.who, place.tenant), id_of(text))


def _open_form(place: AlertSection, asked: str) -> RowForm:
    rule = None if asked == NEW else _rule(place, asked)
    return _form(_form_maker(place)(rule=rule), rule, rule.version if rule else None)


def _form(
    form: RuleForm, rule: AlertRule | None, version: int | None, found: ShownPreview | None = None
) -> RowForm:
    names = (_("Create rule"), _("Edit rule"))
    return make_row_form(form, rule, version, names, "frontend/alerts/rule_fields.html", found)


def _preview(place: AlertSection, form: RuleForm) -> ShownPreview:
    values, _channels = form.get_values()
    return describe_preview(place.who, AlertRule(tenant=place.tenant, **values))


def _save(request: HttpRequest, place: AlertSection) -> RowForm | None:
    """Create or change a rule; return the form if it is refused, or previewed."""
    what, row = request.POST.get("do"), request.POST.get("row", "")
    if what == "recommend" and place.tenant is None:
        made = create_recommended_rules(acting_user=place.who)
        messages.success(request, _("%(count)d rules created") % {"count": len(made)})
        return None
    rule = _rule(place, row) if row else None
    form, version = _form_maker(place)(request.POST, rule=rule), version_of(request) if rule else None
    if not form.is_valid():
        return _form(form, rule, version)
    if what == "preview":
        return _form(form, rule, version, _preview(place, form))
    values, channels = form.get_values()
    try:
        if rule is None:
            create_rule(acting_user=place.who, tenant=place.tenant, values=values, channels=channels)
        else:
            change_rule(acting_user=place.who, rule=rule, values=values, channels=channels, version=version)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form, rule, version)
    messages.success(
        request, _("Rule updated") if rule else _("Rule created. It's evaluated every 15 seconds.")
    )
    return None


def _acts(place: AlertSection) -> list[BatchAct]:
    if not place.may_edit:
        return []

    def set_enabled(rule: AlertRule, enabled: bool) -> None:
        change_rule(acting_user=place.who, rule=rule, values={"enabled": enabled}, version=rule.version)

    return [
        *build_switch_acts(
            _("Enable rules"),
            _("Disable rules"),
            set_enabled,
            lambda row: row.rule.enabled,
        ),
        build_delete_act(
            _("Delete rules"),
            lambda rule: delete_rule(acting_user=place.who, rule=rule, version=rule.version),
            _("Its alerts stay in the history. Firing alerts are resolved without a notification."),
        ),
    ]


def _find(place: AlertSection, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    rows = [_make_row(rule) for rule in list_rules(place.who, place.tenant).filter(pk__in=ids)]
    return [
        BatchItem(id=row.id, name=row.title, row=row.rule, state=row.condition, version=row.rule.version)
        for row in rows
    ]


@login_required
def workspace_rules(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the rules of a workspace."""
    return show_rules(request, enter_place(request, workspace, "alert-rules"))


@login_required
def ops_rules(request: HttpRequest) -> HttpResponse:
    """Show the rules of the platform."""
    return show_rules(request, enter_place(request, None, "alert-rules"))
