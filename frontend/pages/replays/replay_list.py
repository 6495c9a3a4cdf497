"""All replays of recorded periods."""

from __future__ import annotations

from typing import Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from frontend.pages.replays.replay_words import STATES, describe_change, title_of
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from scheduling.selectors.policy_replay import replay_list
from tenants.access import permissions
from tenants.access.permissions import Permission

_PAGE: Final = 50


@require_GET
@operator_required
def show_replays(request: HttpRequest) -> HttpResponse:
    """Render the list, newest first."""
    who = get_viewer(request)
    set_frame(request, label=_("Policy replays"), trail=_("Operations"))
    found = Paginator(replay_list(viewer=who), _PAGE).get_page(request.GET.get("page"))
    page = {
        "rows": [
            (replay, title_of(replay), describe_change(replay.change), *STATES[replay.state])
            for replay in found
        ],
        "page": found,
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
    }
    return render(request, "frontend/replays/replays.html", page)
