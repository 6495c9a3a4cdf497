"""The columns and filters of lists of quota requests, and a request as text."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.pages.requests import labels
from quotas.models import OPEN_STATES, QuotaRequest, RequestState
from quotas.selectors.changes.quota_request import COLUMNS, INBOX_COLUMNS
from tenants.models import User


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request as text, with the viewer's possible actions. `url` is its page for approvers."""

    request: QuotaRequest
    name: str
    state: str
    tone: str
    lines: Sequence[str]
    offer: Sequence[str]
    mine: bool
    may_withdraw: bool
    decides: bool = False
    url: str = ""

    @property
    def id(self) -> uuid.UUID:
        return self.request.pk

    @property
    def title(self) -> str:
        return self.name


def request_row(who: User, found: QuotaRequest, *, admin: bool = False) -> RequestRow:
    """Return one request as text."""
    state, tone = labels.REQUESTS[found.state]
    mine = found.asker_id == who.pk
    return RequestRow(
        request=found,
        name=labels.node_word(found.node),
        state=str(state),
        tone=tone,
        lines=labels.wish_lines(found.asked, found.current),
        offer=labels.wish_lines(found.counter, found.current),
        mine=mine and found.state == RequestState.COUNTERED,
        may_withdraw=found.state in OPEN_STATES and (mine or admin),
    )


def inbox_row(who: User, found: QuotaRequest, *, decides: bool) -> RequestRow:
    """Return one request in a list of several tenants, with the address of its page."""
    state, tone = labels.REQUESTS[found.state]
    return RequestRow(
        request=found,
        name=labels.node_word(found.node),
        state=str(state),
        tone=tone,
        lines=labels.wish_lines(found.asked, found.current),
        offer=labels.wish_lines(found.counter, found.current),
        mine=False,
        may_withdraw=False,
        decides=decides and found.state == RequestState.PENDING,
        url=reverse("frontend:ops-request", args=[found.pk]),
    )


_COLUMNS: Final = (
    ListColumn(key="tenant", label=gettext_lazy("Tenant"), text=lambda line: line.name),
    ListColumn(
        key="created",
        label=gettext_lazy("Time"),
        sort="created_at",
        text=lambda line: line.request.created_at,
    ),
    ListColumn(
        key="by", label=gettext_lazy("User"), sort="by", text=lambda line: line.request.asker.username
    ),
    ListColumn(key="change", label=gettext_lazy("Change"), text=lambda line: _("; ").join(line.lines)),
    ListColumn(key="reason", label=gettext_lazy("Reason"), text=lambda line: line.request.reason),
    ListColumn(key="state", label=gettext_lazy("State"), sort="state", text=lambda line: line.state),
    ListColumn(
        key="expires",
        label=gettext_lazy("Expires"),
        sort="expires_at",
        shown=False,
        text=lambda line: line.request.expires_at if line.request.is_open else None,
    ),
    ListColumn(key="answer", label=gettext_lazy("Comment"), text=lambda line: line.request.answer),
    ListColumn(
        key="decided_by",
        label=gettext_lazy("Decided by"),
        shown=False,
        text=lambda line: line.request.decided_by.username if line.request.decided_by else "",
    ),
)
_FILTERS: Final = {
    "by": FilterField(label=gettext_lazy("User")),
    "state": FilterField(
        label=gettext_lazy("State"), choices=[(state, word) for state, (word, _t) in labels.REQUESTS.items()]
    ),
    "queue": FilterField(label=gettext_lazy("Queue")),
    "created_at": FilterField(label=gettext_lazy("Time")),
    "expires_at": FilterField(label=gettext_lazy("Expires")),
}
REQUESTS: Final = ListDeclaration(
    key="requests",
    title=gettext_lazy("Quota requests"),
    columns=_COLUMNS,
    filters=_FILTERS,
    fields=COLUMNS,
    default_sort="-created_at",
)
INBOX: Final = ListDeclaration(
    key="inbox",
    title=gettext_lazy("Quota requests"),
    columns=_COLUMNS,
    filters={"tenant": FilterField(label=gettext_lazy("Tenant")), **_FILTERS},
    fields=INBOX_COLUMNS,
    default_sort="-created_at",
)
