"""A pending job evaluated now with all other jobs: its last gates and the effect of recommendations.

This takes one cycle of the scheduler and one more for each recommendation, so the page loads it separately.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from foundation.core import clock
from foundation.core.reason_row import Gate
from foundation.core.reasons import find_reason
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.detail.job_page import find_job
from frontend.pages.jobs.pending import pending_reasons
from frontend.pages.jobs.pending.gates_now import list_gates
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts.recommendations import numbers_of
from scheduling.services.jobs.pending_check import PendingCheck, check_pending_job


@login_required
def check_job(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Show the gates after the stored reason, and the recommendations, as they are now.

    `?estimate=1` adds expected starts.
    """
    who = get_viewer(request)
    place, found = find_job(request, workspace, job)
    estimate = bool(request.GET.get("estimate"))
    checked = check_pending_job(viewer=who, job=found, estimate=estimate) if found.is_waiting else None
    numbers = [numbers_of(each) for each in checked.help] if checked else []
    waits = any("also" in each for each in numbers)
    has_answer = any({"expected", "unestimated"} & each.keys() for each in numbers)
    rights = job_facts.rights_of(who, place)
    _gates, later = pending_reasons.split_later(found, pending_reasons.list_checks(who, found))
    page = {
        "job": found,
        "workspace": place,
        "later_checks": later if checked is None or _never_fits(checked) else list_gates(found, checked),
        "helps": pending_reasons.list_help(rights, found, checked.help if checked else None),
        "starts": checked is not None and checked.starts,
        "checked_at": clock.now() if checked else None,
        "may_estimate": waits and not estimate,
        "without_estimate": waits and estimate and not has_answer,
    }
    return render(request, "frontend/jobs/job_check.html", page)


def _never_fits(checked: PendingCheck) -> bool:
    """Return whether the check ended at the gate before node resources and preemption, so it lacks both."""
    reason = find_reason(checked.reason)
    return reason is not None and reason.row.gate is Gate.FIT
