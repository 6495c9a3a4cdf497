"""The log of a job and the events of its pods, as its cluster has them.

The cluster is asked, whatever time it takes; the page loads these parts by themselves and does not wait.
"""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from foundation.core.errors import AllotmentError, Conflict, NotFound
from foundation.core.numbers import read_whole
from frontend.components import view_models
from frontend.pages.jobs import pod_event_rows
from frontend.pages.jobs.job_page import find_job
from frontend.shell.page_shell import get_viewer, login_required
from scheduling.models import Job
from scheduling.selectors import pod_events
from scheduling.selectors.logs import LogQuery, attempt_of, job_logs

_TASKS: Final = 100
"""So many are offered by name; of a larger job the task is typed."""
_ATTEMPTS: Final = 20


@login_required
def job_log(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """The last lines that its tasks printed, with what chooses among them."""
    place, found = find_job(request, workspace, job)
    query = _query(request)
    attempt = attempt_of(found, query)
    page: dict[str, Any] = {
        "workspace": place,
        "job": found,
        "query": query,
        "attempt": attempt,
        "attempts": range(found.attempt_number, max(found.attempt_number - _ATTEMPTS, 0), -1),
        "tasks": _tasks(found),
        "goes_on": not found.is_terminal and attempt == found.attempt_number,
    }
    try:
        page["lines"] = job_logs(viewer=get_viewer(request), job=found, query=query)
    except (Conflict, NotFound) as error:
        page["problem"] = _problem(error)
    return render(request, "frontend/jobs/job_log.html", page)


@login_required
def job_pod_events(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Show the events that the cluster has of its pods."""
    place, found = find_job(request, workspace, job)
    page: dict[str, Any] = {"workspace": place, "job": found}
    try:
        page["rows"] = pod_event_rows.rows_of_pod_events(
            pod_events.job_pod_events(viewer=get_viewer(request), job=found)
        )
    except Conflict as error:
        page["problem"] = _problem(error)
    return render(request, "frontend/jobs/job_pod_events.html", page)


def _query(request: HttpRequest) -> LogQuery:
    attempt = request.GET.get("attempt", "")
    return LogQuery(
        task=request.GET.get("task", "").strip()[:80],
        attempt=read_whole(attempt, most=10**8),
    )


def _tasks(job: Job) -> list[str]:
    """Their names, where they are few enough to be chosen from."""
    names = [f"{role.name}-{index}" for role in job.roles.all() for index in range(role.replicas)]
    return names if len(names) <= _TASKS else []


def _problem(error: AllotmentError) -> view_models.ProblemBox:
    return view_models.ProblemBox(title=_("Couldn't load events"), detail=error.detail, tone="waiting")
