"""Notification channels: list, create, test, change, delete."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from alerts.models import ChannelKind, NotificationChannel
from alerts.selectors.alerts import get_row, list_channels
from alerts.services.channel import (
    ADDRESS_MAX,
    change_channel,
    check_channel,
    create_channel,
    delete_channel,
)
from foundation.core.errors import AllotmentError, NotFound
from frontend.pages.alerts.place import AlertSection, enter_place
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import login_required


class ChannelForm(forms.Form):
    """A new channel. Address and secret are never shown again."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    kind = forms.ChoiceField(label=gettext_lazy("Type"), choices=ChannelKind.choices)
    address = forms.CharField(
        label=gettext_lazy("URL or recipients"),
        max_length=ADDRESS_MAX,
        help_text=gettext_lazy("For email: addresses, comma-separated"),
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
    """Render the channels; POST creates, tests, changes or deletes one."""
    form = ChannelForm()
    if request.method == "POST" and request.POST.get("do") == "create":
        form = ChannelForm(request.POST)
        if _create(place, form):
            messages.success(request, _("Channel created. Send a test message to check it."))
            return redirect(place.url)
    elif request.method == "POST":
        _act(request, place, request.POST.get("do", ""))
        return redirect(place.url)
    rows = list_channels(place.who, place.tenant)
    context = place.make_context(rows=rows, form=form)
    status = 400 if request.method == "POST" else 200
    return render(request, "frontend/alerts/channels.html", context, status=status)


def _create(place: AlertSection, form: ChannelForm) -> bool:
    if not form.is_valid():
        return False
    values: dict[str, Any] = dict(form.cleaned_data)
    kind = ChannelKind(values.pop("kind"))
    try:
        create_channel(acting_user=place.who, tenant=place.tenant, kind=kind, **values)
    except AllotmentError as error:
        show_refusal(form, error)
        return False
    return True


def _act(request: HttpRequest, place: AlertSection, what: str) -> None:
    try:
        pk = uuid.UUID(request.POST.get("request", ""))
    except ValueError as error:
        raise NotFound from error
    channel = get_row(list_channels(place.who, place.tenant), pk)
    version = version_of(request)
    if what == "test":
        _test(request, place, channel)
    elif what == "delete":
        delete = partial(delete_channel, acting_user=place.who, channel=channel, version=version)
        run_change(request, delete, _("Channel deleted"))
    elif what in ("enable", "disable"):
        values = {"enabled": what == "enable"}
        change = partial(
            change_channel, acting_user=place.who, channel=channel, values=values, version=version
        )
        run_change(request, change, _("Channel enabled") if what == "enable" else _("Channel disabled"))
    else:
        raise NotFound


def _test(request: HttpRequest, place: AlertSection, channel: NotificationChannel) -> None:
    problem = check_channel(acting_user=place.who, channel=channel)
    if problem:
        messages.error(request, _("The test message wasn't accepted: %(problem)s") % {"problem": problem})
    else:
        messages.success(request, _("The test message was accepted."))


@login_required
def workspace_channels(request: HttpRequest, workspace: str) -> HttpResponse:
    """Channels of a workspace."""
    return show_channels(request, enter_place(request, workspace, "alert-channels"))


@login_required
def ops_channels(request: HttpRequest) -> HttpResponse:
    """Channels of the platform."""
    return show_channels(request, enter_place(request, None, "alert-channels"))
