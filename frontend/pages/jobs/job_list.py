"""The jobs of a workspace: find one, see why it waits, end it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from frontend.components import view_models
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.addresses import node_address
from frontend.pages.jobs.job_facts import Actions, Rights, rights_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.selectors.queue import queue_list
from scheduling.models import Job, JobState
from scheduling.selectors.job import DEFAULT_SORT, SORTS, JobFilter, job_query
from scheduling.selectors.row import JobListRow, job_rows, job_state_counts
from telemetry.series import UseNow, jobs_now
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

PER_PAGE: Final = 25
_S = JobState
GROUPS: Final[dict[str, tuple[str | Promise, tuple[JobState, ...]]]] = {
    "waiting": (gettext_lazy("Pending"), (_S.SUBMITTED, _S.QUEUED)),
    "running": (gettext_lazy("Running"), (_S.ADMITTED, _S.STARTING, _S.RUNNING)),
    "leaving": (gettext_lazy("Terminating"), (_S.EVICTING, _S.STOPPING)),
    "suspended": (gettext_lazy("Suspended"), (_S.SUSPENDED,)),
    "succeeded": (gettext_lazy("Succeeded"), (_S.SUCCEEDED,)),
    "failed": (gettext_lazy("Failed"), (_S.FAILED,)),
    "cancelled": (gettext_lazy("Canceled"), (_S.CANCELLED,)),
}
"""The chips above the list: what people ask for, rather than all eleven states."""


@dataclass(frozen=True, slots=True)
class JobListLine:
    """One row of the list."""

    job: Job
    row: JobListRow
    use: UseNow | None
    actions: Actions
    cards: int
    size: str
    waited: timedelta
    ran: timedelta | None
    losses: list[str]
    saved_work: str
    nodes: list[tuple[str, str]]


@login_required
def job_list(request: HttpRequest, workspace: str) -> HttpResponse:
    """The whole page."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    page = _page(request, place) | {"queues": [q.name for q in queue_list(get_viewer(request), place)]}
    return render(request, "frontend/jobs/jobs.html", page)


@login_required
def job_list_live(request: HttpRequest, workspace: str) -> HttpResponse:
    """Only the chips and rows."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    return render(request, "frontend/jobs/jobs_body.html", _page(request, place))


def _page(request: HttpRequest, place: Tenant) -> dict[str, Any]:
    who, asked = get_viewer(request), request.GET
    base = JobFilter(queue=asked.get("queue", ""), name=asked.get("q", "").strip(), mine=_mine(asked))
    state = asked.get("state", "")
    group = GROUPS.get(state)
    filters = JobFilter(states=group[1] if group else (), queue=base.queue, name=base.name, mine=base.mine)
    jobs = job_query(viewer=who, workspace=place, filters=filters).order_by(*_order(asked))
    page = Paginator(jobs, PER_PAGE).get_page(asked.get("page"))
    counts = job_state_counts(viewer=who, workspace=place, filters=base)
    return {
        "workspace": place,
        "rights": (rights := rights_of(who, place)),
        "page_obj": page,
        "lines": _lines(who, place, list(page.object_list), rights),
        "states": _chips(counts),
        "whose": [view_models.Chip(label=_("All")), view_models.Chip(label=_("Mine"), value="mine")],
        "narrowed": bool(group or base.queue or base.name or base.mine),
        "asked": asked,
        "back": {"next": _list_address(request)},
        "query": asked.urlencode(),
    }


def _mine(asked: QueryDict) -> bool:
    return asked.get("who") == "mine"


def _order(asked: QueryDict) -> tuple[str, str]:
    sort = asked.get("sort", DEFAULT_SORT)
    if sort.lstrip("-") not in SORTS:
        sort = DEFAULT_SORT
    return sort, "-pk" if sort.startswith("-") else "pk"


def _list_address(request: HttpRequest) -> str:
    """The page that a refreshed part stands on: where an action leads back to."""
    path = request.path.removesuffix("/live")
    query = request.GET.urlencode()
    return f"{path}?{query}" if query else path


def _chips(counts: Mapping[str, int]) -> list[view_models.Chip]:
    chips = [view_models.Chip(label=_("All"), count=sum(counts.values()))]
    for key, (label, states) in GROUPS.items():
        count = sum(counts.get(state, 0) for state in states)
        if count or key not in ("leaving", "suspended", "cancelled"):
            chips.append(view_models.Chip(label=str(label), value=key, count=count))
    return chips


def _lines(who: User, place: Tenant, jobs: list[Job], rights: Rights) -> list[JobListLine]:
    rows = job_rows(viewer=who, workspace=place, jobs=jobs)
    use = jobs_now(who, [job.pk for job in jobs if job.holds])
    now = clock.now()
    return [_line(job, rows[job.pk], use, rights, now) for job in jobs]


def _line(
    job: Job, row: JobListRow, use: Mapping[uuid.UUID, UseNow], rights: Rights, now: datetime
) -> JobListLine:
    return JobListLine(
        job=job,
        row=row,
        use=use.get(job.pk),
        actions=job_facts.actions_of(job, rights),
        cards=job_facts.cards_asked(job),
        size=job_facts.format_size(job),
        waited=job_facts.waiting_time(job, now),
        ran=job_facts.run_time(job, now),
        losses=job_facts.list_losses(job, now),
        saved_work=job_facts.describe_saved_work(job),
        nodes=[
            (name, node_address(name, cluster) if rights.operations else "")
            for cluster, name in row.nodes[:2]
        ],
    )
