"""One replay: its progress, then its simulated figures beside the recorded ones."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from frontend.charts import Chart, ChartLine, time_series
from frontend.components import view_models
from frontend.pages.replays.replay_words import (
    STATES,
    compare_totals,
    describe_change,
    format_error,
    list_limits,
    team_row,
    title_of,
)
from frontend.shell.form_actions import run_change
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts import formats
from scheduling.models import PolicyReplay, SimulationState
from scheduling.selectors.policies.policy_replay import COLUMNS, compare_teams, replay_get
from scheduling.services.policy_replay.replay import replay_cancel, replay_delete
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_COLORS: Final = {"measured": "series-3", "recorded": "series-1", "changed": "series-2"}


@operator_required
def show_replay(request: HttpRequest, replay: uuid.UUID) -> HttpResponse:
    """Render a replay; POST cancels or deletes it."""
    who = get_viewer(request)
    found = replay_get(viewer=who, pk=replay)
    if request.method == "POST":
        return _act(request, who, found)
    set_frame(request, label=_("Policy replays"), trail=title_of(found))
    crumb = view_models.Crumb(label=_("Policy replays"), url=reverse("frontend:ops-replays"))
    page = {
        **_state_of(found),
        "title": title_of(found),
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "crumbs": [crumb],
        "live_url": reverse("frontend:ops-replay-live", args=[found.pk]),
        **(_result_of(found) if found.has_figures else {}),
    }
    return render(request, "frontend/replays/replay.html", page)


@require_GET
@operator_required
def replay_live(request: HttpRequest, replay: uuid.UUID) -> HttpResponse:
    """Show the progress. A replay that has ended answers with a redirect, so that the page loads again with
    the result."""
    found = replay_get(viewer=get_viewer(request), pk=replay)
    if found.has_ended:
        return redirect("frontend:ops-replay", found.pk)
    return render(request, "frontend/replays/replay_live.html", _state_of(found))


def _act(request: HttpRequest, who: User, found: PolicyReplay) -> HttpResponse:
    if request.POST.get("do") == "delete":
        delete = partial(replay_delete, acting_user=who, replay=found)
        if run_change(request, delete, _("Replay deleted")):
            return redirect("frontend:ops-replays")
    elif request.POST.get("do") == "cancel":
        run_change(request, partial(replay_cancel, acting_user=who, replay=found), _("Replay canceled"))
    return redirect("frontend:ops-replay", found.pk)


def _state_of(found: PolicyReplay) -> dict[str, Any]:
    word, tone = STATES[found.state]
    return {
        "replay": found,
        "state": word,
        "tone": tone,
        "change": describe_change(found.change),
        "percent": round(100 * found.part_done),
        "error": format_error(found.error) if found.state == SimulationState.FAILED else "",
    }


def _result_of(found: PolicyReplay) -> dict[str, Any]:
    return {
        "rows": compare_totals(found.result),
        "teams": [team_row(team.name, team.figures) for team in compare_teams(found)],
        "jobs": found.result["recorded"]["total"]["jobs"],
        "limits": list_limits(found),
        "chart": _allocation_chart(found),
        "took": formats.format_duration(found.seconds),
    }


def _allocation_chart(found: PolicyReplay) -> Chart:
    """Draw the GPUs that were allocated over the period, in all columns."""
    names = {
        "measured": _("Measured"),
        "recorded": _("Recorded configuration"),
        "changed": _("With the change"),
    }
    lines = []
    for column in COLUMNS:
        if column not in found.result:
            continue
        figures = found.result[column]
        step = timedelta(seconds=figures["bucket_s"])
        points = [
            (found.begin_at + step * place, value) for place, value in enumerate(figures["allocated_gpus"])
        ]
        dash = "dot" if column == "measured" else "solid"
        lines.append(ChartLine(name=names[column], points=points, color=_COLORS[column], dash=dash))
    return time_series(
        "replay-allocation",
        lines,
        unit=_("GPUs"),
        title=_("Allocated GPUs"),
        span=(found.begin_at, found.end_at),
    )
