"""Shows which jobs start earlier, start later or are preempted after a change, as simulated.

A button below the preview of the next cycle requests the simulation; its result appears without a reload.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.pages.estimates.estimate_panel import EstimatePanel, describe_open_estimate
from frontend.shell.page_shell import STOP_POLLING, get_viewer, login_required
from frontend.texts import formats
from frontend.texts.estimates import CANCELED, EXPIRED, describe_failure
from scheduling.models import EstimateSubject, SimulationState, StartEstimate
from scheduling.selectors.jobs.job_sight import visible_job_names
from scheduling.services.start_estimate.request import cancel_estimate, find_estimate, is_expired
from tenants.models import User

_MOST: Final = 20
_FIELD: Final = "estimate"


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job with its start before and after the change; None is later than the horizon. Of a preempted job
    only `after` is set."""

    name: str
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, slots=True)
class ChangedJobs:
    """Jobs of one kind of effect: the visible ones, `_MOST` at most, and the number of jobs out of sight or
    deleted."""

    title: str
    jobs: Sequence[ChangedJob]
    more: int
    others: int
    preempted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePanel(EstimatePanel):
    """The state of an estimate of a change; one that is done has groups or a message."""

    groups: Sequence[ChangedJobs] = ()
    basis: str = ""
    horizon: str = ""
    left_out: int = 0
    made_at: datetime | None = None


def offer_estimate(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the button that requests an estimate of the change that was just previewed."""
    values = {name: request.POST.getlist(name) for name in request.POST if name != _FIELD}
    return {"estimate_url": request.path, "estimate_values": json.dumps({**values, _FIELD: "1"})}


def wants_estimate(request: HttpRequest) -> bool:
    """Return whether the button was clicked."""
    return _FIELD in request.POST


def show_requested(request: HttpRequest, make: Callable[[], StartEstimate]) -> HttpResponse:
    """Request an estimate, and return its panel or why it is refused."""
    try:
        panel = _panel_of(get_viewer(request), make())
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        panel = ChangePanel(message=error.detail)
    return render(request, "frontend/estimates/change_estimate.html", {"estimate": panel})


@require_http_methods(["GET", "POST"])
@login_required
def change_estimate(request: HttpRequest) -> HttpResponse:
    """Show the user's own estimate `?of=`; POST cancels it."""
    who = get_viewer(request)
    if request.method == "POST":
        cancel_estimate(acting_user=who, subject=EstimateSubject.CHANGE)
        page = {"estimate": ChangePanel(message=CANCELED)}
        return render(request, "frontend/estimates/change_estimate.html", page)
    try:
        pk = uuid.UUID(request.GET.get("of", ""))
    except ValueError as error:
        raise NotFound from error
    now = clock.now()
    row = find_estimate(viewer=who, subject=EstimateSubject.CHANGE, pk=pk, now=now, with_expired=True)
    if row is None:
        panel = ChangePanel(message=CANCELED)
    else:
        panel = ChangePanel(message=EXPIRED) if is_expired(row, now) else _panel_of(who, row)
    status = 200 if panel.live_url else STOP_POLLING
    page = {"estimate": panel}
    return render(request, "frontend/estimates/change_estimate_live.html", page, status=status)


def _panel_of(who: User, row: StartEstimate) -> ChangePanel:
    if not row.has_ended:
        return ChangePanel(**describe_open_estimate(row, reverse("frontend:change-estimate")))
    if row.state != SimulationState.DONE:
        return ChangePanel(message=describe_failure(row, _("No estimate: the change is invalid now.")))
    return _result_of(who, row.result)


def _result_of(who: User, result: Mapping[str, Any]) -> ChangePanel:
    ids = {one["job"] for kind in ("earlier", "later", "preempted") for one in result[kind]}
    names = visible_job_names(who, ids)
    made_at = datetime.fromisoformat(result["made_at"])
    horizon = formats.format_duration(result["horizon_s"])
    sentence = _(
        "Based on %(futures)s simulations with and without the change, with the same run times and arrivals, "
        "%(horizon)s ahead. A job is listed if more than half of them agree; times are medians. An estimate, "
        "not a guarantee."
    )
    words = {"futures": formats.format_number(result["futures"]), "horizon": horizon}
    return ChangePanel(
        groups=[
            _group(_("Start earlier"), result["earlier"], names, made_at),
            _group(_("Start later"), result["later"], names, made_at),
            _group(_("Are preempted"), result["preempted"], names, made_at, preempted=True),
        ],
        basis=sentence % words,
        horizon=horizon,
        left_out=result["left_out"],
        made_at=made_at,
    )


def _group(
    title: str,
    listed: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    made_at: datetime,
    *,
    preempted: bool = False,
) -> ChangedJobs:
    def find_time(seconds: int | None) -> datetime | None:
        return None if seconds is None else made_at + timedelta(seconds=seconds)

    seen = [
        ChangedJob(names[one["job"]], find_time(one.get("before")), find_time(one["after"]))
        for one in listed
        if one["job"] in names
    ]
    return ChangedJobs(title, seen[:_MOST], len(seen[_MOST:]), len(listed) - len(seen), preempted)
