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

from alerts.models import ChannelKind, NotificationChannel
from alerts.selectors.alerts import CHANNEL_COLUMNS, list_channels
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
from frontend.lists.row_form import RowForm
from frontend.pages.alerts.place import AlertSection, answer_section, enter_place
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import login_required


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """One channel in words."""

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


class ChannelForm(forms.Form):
    """A new channel. Address and secret are never shown again."""

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

    def __init__(self, data: object = None) -> None:
        super().__init__(data, initial={"language": get_language()})  # type: ignore[arg-type]


def show_channels(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the channels; POST creates one, or tests, enables, disables or deletes some."""
    acts = _acts(place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, place), back=place.url)
    listing = read_list(request, CHANNELS)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _create(request, place)
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
        open_form=lambda: _form(ChannelForm()),
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


def _form(form: ChannelForm) -> RowForm:
    fields = "frontend/alerts/channel_fields.html"
    word = _("Create channel")
    return RowForm(title=word, do="create", button=word, form=form, fields=fields)


def _create(request: HttpRequest, place: AlertSection) -> RowForm | None:
    """Create a channel; the form again where it is refused."""
    form = ChannelForm(request.POST)
    if not form.is_valid():
        return _form(form)
    values: dict[str, Any] = dict(form.cleaned_data)
    kind = ChannelKind(values.pop("kind"))
    try:
        create_channel(acting_user=place.who, tenant=place.tenant, kind=kind, **values)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form)
    messages.success(request, _("Channel created. Send a test message to check it."))
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
    """Channels of a workspace."""
    return show_channels(request, enter_place(request, workspace, "alert-channels"))


@login_required
def ops_channels(request: HttpRequest) -> HttpResponse:
    """Channels of the platform."""
    return show_channels(request, enter_place(request, None, "alert-channels"))
