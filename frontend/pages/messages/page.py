"""The reader's messages: list, open, mark as read; and the bell with the number of unread messages."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from alerts.delivery.message_text import write_title
from alerts.models import MessageKind, UserMessage
from alerts.selectors.messages import MESSAGE_COLUMNS, count_unread, list_messages
from alerts.services.message import mark_read
from foundation.core.errors import NotFound
from frontend.components.view_models import Chip
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.shell.bell import UNREAD_MAX, UnreadBell
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.models import User

_ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as text."""

    message: UserMessage
    title: str
    kind: str
    tone: str
    tenant: str
    unread: bool

    @property
    def id(self) -> uuid.UUID:
        return self.message.pk

    @property
    def url(self) -> str:
        return reverse("frontend:message", args=[self.message.pk]) if self.message.path else ""


MESSAGES: Final = ListDeclaration(
    key="messages",
    title=gettext_lazy("Messages"),
    columns=(
        ListColumn(key="title", label=gettext_lazy("Message"), text=lambda row: row.title),
        ListColumn(key="kind", label=gettext_lazy("Type"), text=lambda row: row.kind),
        ListColumn(key="tenant", label=gettext_lazy("Tenant"), text=lambda row: row.tenant),
        ListColumn(
            key="created",
            label=gettext_lazy("Received"),
            sort="created_at",
            text=lambda row: row.message.created_at,
        ),
        ListColumn(
            key="read",
            label=gettext_lazy("Read at"),
            shown=False,
            text=lambda row: row.message.read_at,
        ),
    ),
    filters={
        "kind": FilterField(label=gettext_lazy("Type"), choices=MessageKind.choices),
        "created_at": FilterField(label=gettext_lazy("Received")),
    },
    fields=MESSAGE_COLUMNS,
    parameters=("state",),
    unfiltered=("state", _ALL),
)


@login_required
def show_messages(request: HttpRequest) -> HttpResponse:
    """Render the reader's messages; POST marks some or all as read."""
    who = get_viewer(request)
    set_frame(request)
    listing, acts = read_list(request, MESSAGES, {"state": [_ALL]}), [_read_act(who)]
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who), back=listing.path)
    if request.method == "POST":
        mark_read(acting_user=who)
        messages.success(request, _("All messages marked as read"))
        return redirect(listing.address)
    shows_all = listing.query.get("state") == _ALL
    rows = list_messages(who)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(rows if shows_all else rows.filter(read_at__isnull=True)),
        lambda found: [_make_row(message) for message in found],
        template="frontend/messages/messages.html",
        context=lambda: _context(rows, acts, shows_all=shows_all),
    )


def _context(rows: QuerySet[UserMessage], acts: list[BatchAct], *, shows_all: bool) -> dict[str, Any]:
    none = EmptyList(
        _("No messages") if shows_all else _("No unread messages"),
        _("Messages are kept for 90 days. Select Notify me on the page of a job to get one when it starts."),
        icon="bell",
    )
    return {
        "title": _("Messages"),
        "states": [Chip(label=_("Unread")), Chip(label=_("All"), value=_ALL)],
        "unread": rows.filter(read_at__isnull=True).exists(),
        "row": "frontend/messages/message_row.html",
        "acts": acts,
        "batch_url": reverse("frontend:messages"),
        "empty_list": none,
    }


def _make_row(message: UserMessage) -> MessageRow:
    tones = {MessageKind.ALERT: "failed", MessageKind.PREEMPTION: "waiting", MessageKind.JOB: "running"}
    events = {
        "resolved": "done",
        "test": "done",
        "cancelled": "done",
        "failed": "failed",
        "rejected": "failed",
    }
    kind = MessageKind(message.kind)
    return MessageRow(
        message=message,
        title=write_title(message),
        kind=str(kind.label),
        tone=events.get(message.event) or tones.get(kind, "info"),
        tenant=message.tenant.name if message.tenant else "",
        unread=message.read_at is None,
    )


def _read_act(who: User) -> BatchAct:
    return BatchAct(
        key="read",
        label=_("Mark as read"),
        title=_("Mark messages as read"),
        act=lambda message, _choice: mark_read(acting_user=who, ids=[message.pk]),
        icon="check",
        fits=lambda line: line.unread,
    )


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    rows = [_make_row(message) for message in list_messages(who).filter(pk__in=ids)]
    return [BatchItem(id=row.id, name=row.title, row=row.message, state=row.kind) for row in rows]


@require_GET
@login_required
def open_message(request: HttpRequest, message: uuid.UUID) -> HttpResponse:
    """Mark a message as read and go to the page of its subject. Raises: NotFound."""
    who = get_viewer(request)
    found = list_messages(who).filter(pk=message).first()
    if found is None:
        raise NotFound
    mark_read(acting_user=who, ids=[found.pk])
    return redirect(found.path or reverse("frontend:messages"))


@require_GET
@login_required
def show_bell(request: HttpRequest) -> HttpResponse:
    """Render the bell of the frame with the number of unread messages."""
    bell = UnreadBell(count_unread(get_viewer(request), limit=UNREAD_MAX))
    return render(request, "frontend/components/bell.html", {"bell": bell})
