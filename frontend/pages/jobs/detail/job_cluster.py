"""The log of a job and the events of its pods, read from its cluster.

The cluster may take long to respond, so the page loads these parts separately.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.errors import AllotmentError, Conflict, NotFound
from foundation.core.numbers import read_whole
from frontend.components import view_models
from frontend.pages.jobs.detail.job_page import find_job
from frontend.pages.jobs.events import pod_event_rows
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts import formats
from scheduling.models import Job
from scheduling.selectors.pods import pod_events
from scheduling.selectors.pods.logs import LogQuery, attempt_of, job_logs

_TASKS: Final = 100
"""The maximum number of tasks to select from; for a larger job the task is typed."""
_ATTEMPTS: Final = 20
_FILE_LINES: Final = 5000
_SPANS: Final = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}


@login_required
def job_log(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Show the last lines that the tasks printed, with filters; `format=text` returns a file."""
    place, found = find_job(request, workspace, job)
    query = _query(request, found)
    attempt = attempt_of(found, query)
    if request.GET.get("format") == "text":
        return _file(request, found, replace(query, limit=_FILE_LINES), attempt)
    chosen = {name: request.GET[name] for name in ("task", "attempt", "since") if request.GET.get(name)}
    page: dict[str, Any] = {
        "workspace": place,
        "job": found,
        "query": query,
        "attempt": attempt,
        "attempts": range(found.attempt_number, max(found.attempt_number - _ATTEMPTS, 0), -1),
        "previous": found.attempt_number - 1,
        "tasks": _tasks(found),
        "since": request.GET.get("since", "") if query.since else "",
        "spans": [("", _("Any time")), *((key, _last(key)) for key in _SPANS)],
        "file_query": urlencode({**chosen, "format": "text"}),
        "find": request.GET.get("find", ""),
        "goes_on": not found.is_terminal and attempt == found.attempt_number,
    }
    try:
        page["lines"] = job_logs(viewer=get_viewer(request), job=found, query=query)
        page["cut"] = query.limit if len(page["lines"]) == query.limit else 0
    except (Conflict, NotFound) as error:
        page["problem"] = _problem(error)
    return render(request, "frontend/jobs/job_log.html", page)


def _file(request: HttpRequest, job: Job, query: LogQuery, attempt: int) -> HttpResponse:
    """Return the lines as a text file, each with its time and task."""
    lines = job_logs(viewer=get_viewer(request), job=job, query=query)
    text = "".join(f"{line.at.isoformat() if line.at else '-'} {line.task} {line.text}\n" for line in lines)
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    name = "-".join([job.name, f"attempt-{attempt}", *([query.task] if query.task else [])])
    answer["Content-Disposition"] = content_disposition_header(True, f"{name}.log")
    return answer


@login_required
def job_pod_events(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Show the events that the cluster has of the job's pods."""
    place, found = find_job(request, workspace, job)
    page: dict[str, Any] = {"workspace": place, "job": found}
    try:
        page["rows"] = pod_event_rows.rows_of_pod_events(
            pod_events.job_pod_events(viewer=get_viewer(request), job=found)
        )
    except Conflict as error:
        page["problem"] = _problem(error)
    return render(request, "frontend/jobs/job_pod_events.html", page)


def _query(request: HttpRequest, job: Job) -> LogQuery:
    attempt = request.GET.get("attempt", "")
    span = _SPANS.get(request.GET.get("since", ""))
    return LogQuery(
        task=request.GET.get("task", "").strip()[:80],
        attempt=read_whole(attempt, most=10**8),
        # For an ended job the period counts back from its end, as in its charts.
        since=(job.finished_at or clock.now()) - span if span else None,
    )


def _last(key: str) -> str:
    return _("Last %(span)s") % {"span": formats.format_duration(_SPANS[key])}


def _tasks(job: Job) -> list[str]:
    """Return the names of the tasks, if they are few enough to be selected."""
    names = [f"{role.name}-{index}" for role in job.roles.all() for index in range(role.replicas)]
    return names if len(names) <= _TASKS else []


def _problem(error: AllotmentError) -> view_models.ProblemBox:
    return view_models.ProblemBox(title=_("Couldn't load events"), detail=error.detail, tone="waiting")
