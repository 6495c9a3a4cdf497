"""Notification channels: list, create, test, change, delete."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from alerts.delivery.messages import Item, write_sample
from alerts.delivery.templates import BODY_MAX, TITLE_MAX, VARIABLES, MessageTemplates, find_problem
from alerts.models import ChannelKind, NotificationChannel
from alerts.selectors.alerts import CHANNEL_COLUMNS, get_row, list_channels
from alerts.services.channel import (
    ADDRESS_MAX,
    change_channel,
    check_channel,
    create_channel,
    delete_channel,
)
from foundation.core.errors import AllotmentError, Invalid
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.common_acts import build_delete_act, build_switch_acts
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.alerts.place import AlertSection, answer_section, enter_place, make_row_form
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import login_required


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """One channel as text."""

    channel: Any  # a NotificationChannel with its number of `unsent`
    state: str
    tone: str

    @property
    def id(self) -> uuid.UUID:
        found: uuid.UUID = self.channel.pk
        return found

    @property
    def title(self) -> str:
        return str(self.channel.name)


CHANNELS: Final = ListDeclaration(
    key="channels",
    title=gettext_lazy("Channels"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Channel"), sort="name", text=lambda row: row.channel.name),
        ListColumn(
            key="kind",
            label=gettext_lazy("Type"),
            sort="kind",
            text=lambda row: row.channel.get_kind_display(),
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda row: row.state),
        ListColumn(
            key="sent", label=gettext_lazy("Last sent"), sort="sent_at", text=lambda row: row.channel.sent_at
        ),
        ListColumn(
            key="unsent",
            label=gettext_lazy("Unsent"),
            number=True,
            sort="unsent",
            text=lambda row: row.channel.unsent,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Channel")),
        "kind": FilterField(label=gettext_lazy("Type"), choices=ChannelKind.choices),
        "enabled": FilterField(label=gettext_lazy("Enabled")),
        "unsent": FilterField(label=gettext_lazy("Unsent")),
    },
    fields={
        **CHANNEL_COLUMNS,
        "enabled": Column("enabled", ColumnKind.FLAG),
        "sent_at": Column("sent_at", ColumnKind.TIME),
        "unsent": Column("unsent", ColumnKind.NUMBER),
    },
    default_sort="name",
    every_s=30,
)


_CHANGEABLE: Final = ("name", "language", "title_template", "body_template", "sends_job_watches")


class ChannelForm(forms.Form):
    """The form of a channel. Address and secret are never shown again."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    kind = forms.ChoiceField(label=gettext_lazy("Type"), choices=ChannelKind.choices)
    address = forms.CharField(
        label=gettext_lazy("URL or recipients"),
        max_length=ADDRESS_MAX,
        help_text=gettext_lazy("For email and in-site messages: addresses or usernames, comma-separated"),
    )
    secret = forms.CharField(
        label=gettext_lazy("Signing secret"),
        required=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("For webhooks, DingTalk and Lark"),
    )
    language = forms.ChoiceField(label=gettext_lazy("Language"), choices=settings.LANGUAGES)
    title_template = forms.CharField(
        label=gettext_lazy("Title template"), required=False, max_length=TITLE_MAX
    )
    body_template = forms.CharField(
        label=gettext_lazy("Text template"),
        required=False,
        max_length=BODY_MAX,
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    sends_job_watches = forms.BooleanField(
        label=gettext_lazy("Also send when watched jobs start and end"),
        required=False,
        help_text=gettext_lazy("Jobs for which a user chose Notify me. Templates don't apply."),
    )

    def __init__(
        self, data: object = None, *, of_workspace: bool, channel: NotificationChannel | None = None
    ) -> None:
        initial = {name: getattr(channel, name) for name in _CHANGEABLE} if channel else {}
        super().__init__(data, initial={"language": get_language()} | initial)  # type: ignore[arg-type]
        names = ", ".join(f"{{{name}}}" for name in VARIABLES)
        self.fields["body_template"].help_text = _("Variables: %(names)s") % {"names": names}
        self.fields["title_template"].help_text = _("Leave empty for the usual text")
        if not of_workspace:
            del self.fields["sends_job_watches"]
        if channel is not None:
            del self.fields["kind"]
            self.fields["address"].required = False
            self.fields["address"].help_text = _("Leave empty to keep the current one")
            self.fields["secret"].help_text = _("Leave empty to keep the current one")

    def clean(self) -> dict[str, Any]:
        """Check the templates, so that a preview shows their errors as well."""
        values = super().clean() or {}
        for name in ("title_template", "body_template"):
            problem = find_problem(values.get(name, ""))
            if problem:
                self.add_error(name, problem)
        return values

    def get_changes(self) -> dict[str, Any]:
        """Return the changes of a channel: an address or secret that was left empty stays."""
        unchanged = [name for name in ("address", "secret") if not self.cleaned_data.get(name)]
        return {name: value for name, value in self.cleaned_data.items() if name not in unchanged}


def show_channels(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the channels; POST creates one, or tests, enables, disables or deletes some."""
    acts = _acts(place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, place), back=place.url)
    listing = read_list(request, CHANNELS)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, place)
        if refused is None:
            return redirect(listing.address)
    hint = _("A channel sends alert notifications by webhook, email, in-site message or chat robot.")
    return answer_section(
        request,
        place,
        listing,
        list_channels(place.who, place.tenant),
        lambda found: [_make_row(channel) for channel in found],
        acts=acts,
        refused=refused,
        open_form=lambda: _open_form(place, listing.form_of),
        edits=place.may_edit,
        row="frontend/alerts/channel_row.html",
        add_label=_("Create channel"),
        empty_list=EmptyList(_("No channels"), hint, icon="bell"),
    )


def _make_row(channel: NotificationChannel) -> ChannelRow:
    if not channel.enabled:
        return ChannelRow(channel, _("Disabled"), "done")
    if channel.failing_since:
        return ChannelRow(channel, _("Failing"), "failed")
    return ChannelRow(channel, _("OK"), "running")


def _channel(place: AlertSection, text: str) -> NotificationChannel:
    return get_row(list_channels(place.who, place.tenant), id_of(text))


def _open_form(place: AlertSection, asked: str) -> RowForm:
    channel = None if asked == NEW else _channel(place, asked)
    return _form(_make_form(place, channel), channel, channel.version if channel else None)


def _make_form(place: AlertSection, channel: NotificationChannel | None, data: object = None) -> ChannelForm:
    return ChannelForm(data, channel=channel, of_workspace=place.tenant is not None)


def _form(
    form: ChannelForm, channel: NotificationChannel | None, version: int | None, found: Item | None = None
) -> RowForm:
    names = (_("Create channel"), _("Edit channel"))
    return make_row_form(form, channel, version, names, "frontend/alerts/channel_fields.html", found)


def _save(request: HttpRequest, place: AlertSection) -> RowForm | None:
    """Create or change a channel; return the form if it is refused, or previewed."""
    row = request.POST.get("row", "")
    channel = _channel(place, row) if row else None
    form, version = _make_form(place, channel, request.POST), version_of(request) if channel else None
    if not form.is_valid():
        return _form(form, channel, version)
    values: dict[str, Any] = form.get_changes()
    if request.POST.get("do") == "preview":
        templates = MessageTemplates(values["title_template"], values["body_template"])
        return _form(form, channel, version, write_sample(templates, language=values["language"]))
    try:
        if channel is None:
            kind = ChannelKind(values.pop("kind"))
            create_channel(acting_user=place.who, tenant=place.tenant, kind=kind, **values)
        else:
            change_channel(acting_user=place.who, channel=channel, values=values, version=version)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form, channel, version)
    messages.success(
        request, _("Channel updated") if channel else _("Channel created. Send a test message to check it.")
    )
    return None


def _acts(place: AlertSection) -> list[BatchAct]:
    if not place.may_edit:
        return []

    def set_enabled(channel: NotificationChannel, enabled: bool) -> None:
        values = {"enabled": enabled}
        change_channel(acting_user=place.who, channel=channel, values=values, version=channel.version)

    return [
        BatchAct(
            key="test",
            label=_("Send test"),
            title=_("Send a test message to channels"),
            act=lambda channel, _choice: _test(place, channel),
            icon="send",
        ),
        *build_switch_acts(
            _("Enable channels"),
            _("Disable channels"),
            set_enabled,
            lambda row: row.channel.enabled,
        ),
        build_delete_act(
            _("Delete channels"),
            lambda channel: delete_channel(acting_user=place.who, channel=channel, version=channel.version),
            _("Unsent notifications of the channel are deleted. Rules keep their other channels."),
        ),
    ]


def _find(place: AlertSection, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    rows = [_make_row(channel) for channel in list_channels(place.who, place.tenant).filter(pk__in=ids)]
    return [
        BatchItem(id=row.id, name=row.title, row=row.channel, state=row.state, version=row.channel.version)
        for row in rows
    ]


def _test(place: AlertSection, channel: NotificationChannel) -> None:
    problem = check_channel(acting_user=place.who, channel=channel)
    if problem:
        raise Invalid(_("The test message wasn't accepted: %(problem)s") % {"problem": problem})


@login_required
def workspace_channels(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the channels of a workspace."""
    return show_channels(request, enter_place(request, workspace, "alert-channels"))


@login_required
def ops_channels(request: HttpRequest) -> HttpResponse:
    """Show the channels of the platform."""
    return show_channels(request, enter_place(request, None, "alert-channels"))
