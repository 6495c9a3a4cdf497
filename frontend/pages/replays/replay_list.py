"""The replays of recorded periods."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from foundation.web.listing import filter_rows, sort_rows
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.replays.replay_words import STATES, describe_change, title_of
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from scheduling.models import PolicyReplay
from scheduling.selectors.policies.policy_replay import REPLAY_COLUMNS, replay_list
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class ReplayLine:
    """One row of the list."""

    replay: PolicyReplay
    title: str
    change: Sequence[str]
    state: str
    tone: str

    @property
    def id(self) -> uuid.UUID:
        return self.replay.pk

    @property
    def url(self) -> str:
        return reverse("frontend:ops-replay", args=[self.replay.pk])


REPLAYS: Final = ListDeclaration(
    key="replays",
    title=gettext_lazy("Replays"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.title),
        ListColumn(
            key="change",
            label=gettext_lazy("Change"),
            shown=False,
            text=lambda line: _("; ").join(line.change),
        ),
        ListColumn(
            key="period",
            label=gettext_lazy("Period"),
            text=lambda line: f"{line.replay.begin_at.isoformat()}/{line.replay.end_at.isoformat()}",
        ),
        ListColumn(
            key="cell", label=gettext_lazy("Scheduling domain"), text=lambda line: line.replay.cell.name
        ),
        ListColumn(
            key="created",
            label=gettext_lazy("Created"),
            sort="created_at",
            text=lambda line: line.replay.created_at,
        ),
        ListColumn(
            key="by", label=gettext_lazy("User"), shown=False, text=lambda line: line.replay.actor_name
        ),
        ListColumn(key="state", label=gettext_lazy("State"), sort="state", text=lambda line: line.state),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "cell": FilterField(label=gettext_lazy("Scheduling domain")),
        "state": FilterField(
            label=gettext_lazy("State"), choices=[(state, word) for state, (word, _tone) in STATES.items()]
        ),
        "created_at": FilterField(label=gettext_lazy("Created")),
    },
    fields=REPLAY_COLUMNS,
    default_sort="-created_at",
)


@require_GET
@operator_required
def show_replays(request: HttpRequest) -> HttpResponse:
    """Show the list, newest first unless sorted otherwise."""
    who, listing = get_viewer(request), read_list(request, REPLAYS)
    set_frame(request, label=_("Policy replays"), trail=_("Operations"))
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    hint = _("Replay last week to see what another policy would have done.")
    none = EmptyList(_("No replays"), hint, icon="history")
    if may_edit:
        none = EmptyList(none.title, hint, reverse("frontend:ops-replay-new"), _("New replay"), "history")
    rows = filter_rows(replay_list(viewer=who), listing.conditions)
    return answer_list(
        request,
        listing,
        sort_rows(rows, listing.sort, REPLAY_COLUMNS),
        lambda found: [_line(replay) for replay in found],
        template="frontend/replays/replays.html",
        context=lambda: {
            "may_edit": may_edit,
            "row": "frontend/replays/replay_row.html",
            "empty_list": none,
        },
    )


def _line(replay: PolicyReplay) -> ReplayLine:
    word, tone = STATES[replay.state]
    return ReplayLine(replay, title_of(replay), describe_change(replay.change), str(word), tone)
