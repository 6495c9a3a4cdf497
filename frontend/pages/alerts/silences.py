"""Silences: list, create, end."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.delivery.messages import format_seconds
from alerts.metrics.subject_names import name_subject
from alerts.models import AlertRule, AlertSeverity, Silence
from alerts.selectors.alerts import SILENCE_COLUMNS, list_rules, list_silences
from alerts.services.silence import create_silence, end_silence
from foundation.core import clock
from foundation.core.errors import AllotmentError
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, read_list
from frontend.lists.row_form import RowForm
from frontend.pages.alerts.place import AlertSection, answer_section, enter_place
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import login_required

_HOURS = (1, 2, 4, 8, 24, 72, 168)


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """One silence as text; `fixed` once it has ended."""

    silence: Silence
    title: str
    subject: str
    state: str
    tone: str
    fixed: bool

    @property
    def id(self) -> uuid.UUID:
        return self.silence.pk


SILENCES: Final = ListDeclaration(
    key="silences",
    title=gettext_lazy("Silences"),
    columns=(
        ListColumn(
            key="alerts", label=gettext_lazy("Alerts"), text=lambda row: f"{row.title}, {row.subject}"
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda row: row.state),
        ListColumn(
            key="starts", label=gettext_lazy("From"), sort="starts_at", text=lambda row: row.silence.starts_at
        ),
        ListColumn(
            key="ends", label=gettext_lazy("Until"), sort="ends_at", text=lambda row: row.silence.ends_at
        ),
        ListColumn(key="comment", label=gettext_lazy("Comment"), text=lambda row: row.silence.comment),
        ListColumn(
            key="by", label=gettext_lazy("Created by"), text=lambda row: row.silence.created_by.username
        ),
    ),
    filters={
        "subject": FilterField(label=gettext_lazy("Subject")),
        "rule": FilterField(label=gettext_lazy("Rule")),
        "by": FilterField(label=gettext_lazy("Created by")),
        "ends_at": FilterField(label=gettext_lazy("Until")),
    },
    fields={
        **SILENCE_COLUMNS,
        "rule": Column("rule.name"),
        "by": Column("created_by.username"),
        "starts_at": Column("starts_at", ColumnKind.TIME),
    },
    every_s=30,
)


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
    """Render the silences; POST creates or ends some. The address can fill in rule and subject."""
    acts = _acts(place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, place), back=place.url)
    listing = read_list(request, SILENCES)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _create(request, place)
        if refused is None:
            return redirect(listing.address)
    asked = {name: request.GET.get(name, "") for name in ("rule", "subject")}
    return answer_section(
        request,
        place,
        listing,
        list_silences(place.who, place.tenant),
        lambda found: [_make_row(silence) for silence in found],
        acts=acts,
        refused=refused,
        open_form=lambda: _form(SilenceForm(rules=list(list_rules(place.who, place.tenant)), initial=asked)),
        row="frontend/alerts/silence_row.html",
        add_label=_("Create silence"),
        fact=_("Silenced alerts are still shown"),
        empty_list=EmptyList(_("No silences"), _("Silence alerts during maintenance."), icon="bell-off"),
    )


def _make_row(silence: Silence) -> SilenceRow:
    now = clock.now()
    state, tone = (_("In effect"), "running") if silence.starts_at <= now else (_("Upcoming"), "info")
    ended = silence.ends_at <= now
    metric = silence.rule.metric if silence.rule else ""
    return SilenceRow(
        silence=silence,
        title=silence.rule.name if silence.rule else _("All rules"),
        subject=name_subject(metric, silence.subject) or _("All subjects"),
        state=_("Ended") if ended else state,
        tone="done" if ended else tone,
        fixed=ended,
    )


def _form(form: SilenceForm) -> RowForm:
    fields = "frontend/alerts/silence_fields.html"
    word = _("Create silence")
    return RowForm(title=word, do="create", button=word, form=form, fields=fields)


def _create(request: HttpRequest, place: AlertSection) -> RowForm | None:
    """Create a silence; return the form if it is refused."""
    form = SilenceForm(request.POST, rules=list(list_rules(place.who, place.tenant)))
    if not form.is_valid():
        return _form(form)
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
        return _form(form)
    messages.success(request, _("Silence created. Matching alerts send no notifications."))
    return None


def _acts(place: AlertSection) -> list[BatchAct]:
    if not place.may_edit:
        return []
    end = BatchAct(
        key="end",
        label=_("End now"),
        title=_("End silences"),
        act=lambda silence, _choice: end_silence(acting_user=place.who, silence=silence),
        icon="bell",
    )
    return [end]


def _find(place: AlertSection, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    rows = [_make_row(one) for one in list_silences(place.who, place.tenant).filter(pk__in=ids)]
    return [BatchItem(id=row.id, name=row.title, row=row.silence, state=row.state) for row in rows]


@login_required
def workspace_silences(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the silences of a workspace."""
    return show_silences(request, enter_place(request, workspace, "silences"))


@login_required
def ops_silences(request: HttpRequest) -> HttpResponse:
    """Show the silences of the platform."""
    return show_silences(request, enter_place(request, None, "silences"))
