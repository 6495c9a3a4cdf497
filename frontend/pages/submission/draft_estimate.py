"""The estimated start of a draft: requested with a button, then shown by itself."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.pages.estimates.estimate_panel import EstimatePanel, describe_open_estimate
from frontend.pages.jobs.pending.job_expected import format_basis
from frontend.pages.submission.drafts import invalid_lines, read_draft
from frontend.shell.page_shell import STOP_POLLING, get_viewer, login_required
from frontend.texts import formats
from frontend.texts.estimates import CANCELED, EXPIRED, describe_failure
from scheduling.models import EstimateSubject, SimulationState, StartEstimate, StartPrediction
from scheduling.services.start_estimate.request import (
    cancel_estimate,
    find_estimate,
    is_expired,
    key_of_draft,
    request_draft_estimate,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


@dataclass(frozen=True, slots=True)
class DraftStart:
    """The estimated start of a draft in time after its submission, as text: the 90 % range as `title`, and
    the 50 % range if its begin is within `horizon`.

    `beyond` says that no start is within `horizon`. `made_at` is the assumed time of submission.
    """

    title: str
    likely: str
    open_end: bool
    beyond: bool
    horizon: str
    basis: str
    made_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPanel(EstimatePanel):
    """The state of an estimate of a draft; one that is done is `expected` or has a message."""

    expected: DraftStart | None = None


@require_http_methods(["GET", "POST"])
@login_required
def draft_estimate(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the user's own estimate `?of=`; POST requests one for the draft, or cancels it."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    if request.method == "POST":
        return _render(request, place, _change(request, who, place), whole=True)
    row = find_estimate(
        viewer=who,
        subject=EstimateSubject.DRAFT,
        workspace=place,
        pk=_read_id(request.GET.get("of", "")),
        now=clock.now(),
        with_expired=True,
    )
    return _render(request, place, _panel_of(place, row) or DraftPanel(message=CANCELED), whole=False)


def find_estimate_of(who: User, place: Tenant, body: Mapping[str, Any]) -> DraftPanel | None:
    """Return the user's latest estimate of a draft, or that it has expired; None if there is none."""
    row = find_estimate(
        viewer=who,
        subject=EstimateSubject.DRAFT,
        workspace=place,
        key=key_of_draft(body),
        now=clock.now(),
        with_expired=True,
    )
    return _panel_of(place, row)


def _change(request: HttpRequest, who: User, place: Tenant) -> DraftPanel | None:
    if request.POST.get("do") == "cancel":
        cancel_estimate(acting_user=who, subject=EstimateSubject.DRAFT)
        return DraftPanel(message=CANCELED)
    draft = read_draft(request.POST)
    try:
        if wrong := draft.line_errors():
            raise invalid_lines(wrong)
        row = request_draft_estimate(acting_user=who, workspace=place, body=draft.read_body())
        return _panel_of(place, row)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        return DraftPanel(message=error.detail)


def _panel_of(place: Tenant, row: StartEstimate | None) -> DraftPanel | None:
    """Return the panel of an estimate; None if there is none."""
    if row is None:
        return None
    if is_expired(row, clock.now()):
        return DraftPanel(message=EXPIRED)
    if not row.has_ended:
        return DraftPanel(
            **describe_open_estimate(row, reverse("frontend:job-new-estimate", args=[place.slug]))
        )
    if row.state != SimulationState.DONE:
        refused = _("No estimate: the job would be refused now.")
        return DraftPanel(message=describe_failure(row, refused))
    return DraftPanel(expected=describe_draft_start(read_prediction(row.result)))


def describe_draft_start(found: StartPrediction) -> DraftStart:
    """Return an estimate as text that doesn't change while time passes: the draft is not submitted yet."""
    horizon = formats.format_duration(found.horizon_s)
    if found.low_s is None:
        title = _("Not within %(span)s of submission") % {"span": horizon}
    elif found.high_s is None:
        title = _("%(first)s after submission or later") % {"first": formats.format_duration(found.low_s)}
    elif round(found.high_s) == 0:
        title = _("Immediately after submission")
    else:
        title = _("%(range)s after submission") % {"range": _format_range(found.low_s, found.high_s)}
    return DraftStart(
        title=title,
        likely="" if found.likely_low_s is None else _format_range(found.likely_low_s, found.likely_high_s),
        open_end=found.low_s is not None and found.high_s is None,
        beyond=found.low_s is None,
        horizon=horizon,
        basis=format_basis(found),
        made_at=found.made_at,
    )


def _format_range(first: int, last: int | None) -> str:
    if last is None:
        return _("%(first)s or later") % {"first": formats.format_duration(first)}
    return f"{formats.format_duration(first)} – {formats.format_duration(last)}"


def read_prediction(result: Mapping[str, Any]) -> StartPrediction:
    """Return the stored result of an estimate as a prediction without a job."""
    return StartPrediction(**{**result, "made_at": datetime.fromisoformat(result["made_at"])})


def _read_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise NotFound from error


def _render(request: HttpRequest, place: Tenant, panel: DraftPanel | None, *, whole: bool) -> HttpResponse:
    """Render the panel, or without `whole` the part that is fetched again."""
    template = "frontend/jobs/job_estimate.html" if whole else "frontend/jobs/job_estimate_live.html"
    still = panel is not None and panel.live_url
    status = 200 if whole or still else STOP_POLLING
    return render(request, template, {"estimate": panel, "workspace": place}, status=status)
