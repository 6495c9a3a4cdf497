"""The page of one job in tabs: reason and allocation, timeline, logs, metrics, tasks and specification."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from alerts.selectors.messages import is_watching
from foundation.core import clock
from frontend.components import view_models
from frontend.pages.charts.gpu_choice import read_gpu_choice
from frontend.pages.charts.responses import chart_answer, charts_context
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.addresses import jobs_address, queue_address
from frontend.pages.jobs.detail import connect
from frontend.pages.jobs.detail.copies import submit_texts
from frontend.pages.jobs.detail.spec_text import job_text
from frontend.pages.jobs.events.attempts import describe_attempts
from frontend.pages.jobs.events.event_rows import job_event_rows
from frontend.pages.jobs.job_facts import Rights
from frontend.pages.jobs.job_tabs import JobTab, list_tabs, read_tab, tab_address
from frontend.pages.jobs.job_tags import TagLink, tagged_address
from frontend.pages.jobs.pending import job_expected, pending_reasons
from frontend.pages.jobs.pending.held_by import describe_held_by
from frontend.pages.jobs.resources import job_cost, job_end, job_holding, job_idle, job_memory, job_stages
from frontend.pages.jobs.resources.job_charts import describe_choice, job_range
from frontend.shell.page_shell import STOP_POLLING, get_viewer, login_required, set_frame
from frontend.texts import labels
from frontend.texts.queue_order import describe_queue_order
from scheduling.models import GpuRequestMode, Job, JobState
from scheduling.selectors.allocations.job_holds import sum_job_holds
from scheduling.selectors.events.beneficiary import job_beneficiaries
from scheduling.selectors.events.event import job_cause, job_events
from scheduling.selectors.jobs.exchangeable import exchangeable_places
from scheduling.selectors.jobs.job import job_deleted_at, job_get, job_position, job_promised_until
from scheduling.selectors.jobs.job_tag import job_tags_lately
from scheduling.selectors.jobs.task import job_tasks
from scheduling.selectors.policies.priority import priority_class_list
from telemetry.series import jobs_now
from telemetry.usage.preemptions import PREEMPTION_RULES, read_job_losses
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

_TASKS = 100
_EVENTS = 500
_LATEST = 5


@login_required
def job_detail(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Show the whole page."""
    place, found = find_job(request, workspace, job)
    set_frame(request, place)
    page = _page(request, place, found) | {
        "crumbs": [view_models.Crumb(label=_("Jobs"), url=jobs_address(place.slug))],
    }
    if page["tab"] == JobTab.SPEC:
        page["spec"] = job_text(found)
        page["copies"] = submit_texts(request, place.slug, page["spec"])
        page |= describe_attempts(get_viewer(request), found, request, clock.now())
    if page["tab"] == JobTab.LOGS:
        page["log_query"] = request.GET.urlencode()
    return render(request, "frontend/jobs/job.html", page)


@login_required
def job_live(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Render the changing part; once the job has ended, the page stops polling."""
    place, found = find_job(request, workspace, job)
    page = _page(request, place, found)
    status = STOP_POLLING if found.is_terminal else 200
    return render(request, "frontend/jobs/job_body.html", page, status=status)


@login_required
def job_chart(request: HttpRequest, workspace: str, job: str, measure: str) -> HttpResponse:
    """Return the figure of one chart."""
    _place, found = find_job(request, workspace, job)
    choice = read_gpu_choice(request)
    return chart_answer(get_viewer(request), "job", found.pk, measure, job_range(request, found), choice)


def find_job(request: HttpRequest, slug: str, ref: str) -> tuple[Tenant, Job]:
    """Return the workspace and the job of an address. Raises: NotFound if the viewer may not see them."""
    place = workspace_get(viewer=get_viewer(request), slug=slug)
    found = job_get(viewer=get_viewer(request), workspace=place, ref=ref)
    found.workspace = place  # the workspace is loaded with its folder
    return place, found


def _page(request: HttpRequest, place: Tenant, job: Job) -> dict[str, Any]:
    who, now, tab = get_viewer(request), clock.now(), read_tab(request)
    rights = job_facts.rights_of(who, place)
    page: dict[str, Any] = {
        "workspace": place,
        "job": job,
        "tab": tab.value,
        "tabs": list_tabs(place.slug, job.pk, tab),
        "kind": labels.kind_word(job.kind),
        "roles": " + ".join(f"{role.replicas} {role.name}" for role in job.roles.all()),
        "size": job_facts.format_size(job),
        "queue_url": _queue_url(rights, place, job),
        "actions": job_facts.actions_of(job, rights),
        "watching": not job.is_terminal and is_watching(who, job),
        "tags": [TagLink(name, tagged_address(place.slug, name)) for name in job.tags],
        "known_tags": partial(job_tags_lately, viewer=who, workspace=place),
        "priority_classes": partial(priority_class_list, viewer=who, workspace=place),
        "deleted_at": job_deleted_at(job=job),
        "idle": job_idle.describe_idle_job(job, rights, now),
        "losses": job_facts.list_losses(job, now),
        "kept": job_facts.describe_saved_work(job),
        "back": {"next": tab_address(place.slug, job.pk, tab)},
        "ran": job_facts.run_time(job, now),
        "waited": job_facts.waiting_time(job, now),
        "live_url": _live_address(place, job, {"tab": tab.value}),
    }
    if tab in (JobTab.OVERVIEW, JobTab.TIMELINE):
        page |= _list_events(who, place, job, tab)
    if tab == JobTab.OVERVIEW:
        cost = job_cost.describe_cost(who, job, now) if job.attempt_number else []
        page |= {"cost": cost} | _answer(rights, place, job)
        page["stages"] = job_stages.describe_stages(who, job, now)
    if tab == JobTab.TASKS:
        tasks = job_tasks(viewer=who, job=job, limit=_TASKS)
        offers = job_memory.list_offers(job, tasks.items, rights)
        page["tasks"] = tasks
        page["task_lines"] = job_holding.task_lines(tasks.items, now, rights.operations, offers)
        page["connections"], page["port"] = connect.pod_commands(tasks.items), connect.PORT
        page["simulated"] = connect.is_simulated(tasks.items)
        page["tasks_running"] = sum(row.task.state == "running" for row in tasks.items)
    if tab == JobTab.METRICS and job.attempt_number:
        page |= _charts(request, place, job)
    return page


def _queue_url(rights: Rights, place: Tenant, job: Job) -> str:
    """Return the page of the job's queue; for a viewer who may not open it, the jobs of the queue."""
    if rights.view_quota and job.queue.closed_at is None:
        return queue_address(place.slug, job.queue.name)
    return f"{jobs_address(place.slug)}?{urlencode({'queue': job.queue.name})}"


def _list_events(who: User, place: Tenant, job: Job, tab: JobTab) -> dict[str, Any]:
    """Return the events of the job: all in their tab, the latest in the overview."""
    events = job_events(viewer=who, job=job, limit=_EVENTS).items
    preempted = any(event.numbers.get("rule") in PREEMPTION_RULES for event in events)
    losses = read_job_losses(job.pk, now=clock.now()) if preempted else {}
    named = job_beneficiaries(viewer=who, job=job, events=events) if preempted else {}
    rows = job_event_rows(events, losses, named)
    shown = rows if tab == JobTab.TIMELINE else rows[:_LATEST]
    return {
        "timeline": shown,
        "more_events": len(rows) - len(shown),
        "timeline_url": tab_address(place.slug, job.pk, JobTab.TIMELINE),
        "was_preempted": preempted,
    }


def _live_address(place: Tenant, job: Job, query: dict[str, str]) -> str:
    address = reverse("frontend:job-live", kwargs={"workspace": place.slug, "job": job.pk})
    return f"{address}?{urlencode(query)}"


def _charts(request: HttpRequest, place: Tenant, job: Job) -> dict[str, Any]:
    shown, own = job_range(request, job), {"workspace": place.slug, "job": job.pk}
    choice = read_gpu_choice(request)
    found = charts_context("job", "frontend:job-chart", own, choice.query, shown, name="measure")
    found["gpu_choice"] = describe_choice(get_viewer(request), job, shown, choice)
    every = {"chart_every": 0} if job.is_terminal else {}
    # For a shared GPU, only utilization and memory are known per job.
    roles = job.roles.all()
    whole = {"whole_gpus": any(r.gpu_cards and r.gpu_mode == GpuRequestMode.WHOLE for r in roles)}
    query = {"tab": JobTab.METRICS.value} | shown.query | choice.query
    return found | every | whole | {"live_url": _live_address(place, job, query)}


def _answer(rights: Rights, place: Tenant, job: Job) -> dict[str, Any]:
    """Return the main part of the page, which depends on the job's state: pending, running or ended."""
    who, now = rights.user, clock.now()
    if job.is_waiting:
        gates, later = pending_reasons.split_later(job, pending_reasons.list_checks(who, job))
        return {
            "checks": gates,
            "later_checks": later,
            "helps": pending_reasons.list_help(rights, job),
            "held_by": describe_held_by(who, job),
            "position": job_position(job=job) if job.state == JobState.QUEUED else None,
            "exchangeable": _exchangeable(who, job) if rights.may_stop(job) else (),
            "queue_order": describe_queue_order(job.queue),
            "promised_until": job_promised_until(job=job),
            "expected": job_expected.describe_expected_start(who, job),
        }
    if job.holds:
        use = jobs_now(who, [job.pk]).get(job.pk)
        tasks, holds = job_tasks(viewer=who, job=job, limit=_TASKS), sum_job_holds(viewer=who, job=job)
        return {
            "holds": job_holding.allocation_facts(job, tasks.items, holds, now),
            "obstacle_helps": pending_reasons.list_help(rights, job) if job.reason else (),
            "use": job_holding.measured_facts(job, use),
            "expected_end": job_end.describe_expected_end(who, job),
            "use_percent": use.utilisation_of_grant_percent if use else None,
        }
    return {"ended": job_holding.end_facts(job, now, job_cause(viewer=who, job=job))}


def _exchangeable(who: User, job: Job) -> list[dict[str, Any]]:
    """Return the jobs with which this one can exchange its place, with their place and size."""
    found = exchangeable_places(viewer=who, job=job)
    return [{"job": other, "place": place, "size": job_facts.format_size(other)} for place, other in found]
