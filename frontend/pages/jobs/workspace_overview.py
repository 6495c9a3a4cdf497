"""The overview of a workspace: its quota, its use, and its pending jobs.

Quota and queues are left out for readers who may only view jobs.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from alerts.metrics.subject_names import name_subject
from alerts.models import Alert, AlertSeverity
from alerts.selectors.alerts import count_firing, list_firing
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from frontend.components.capacity import Meter
from frontend.pages.charts.responses import chart_answer, charts_context
from frontend.pages.jobs.job_facts import format_size, rights_of, waiting_time
from frontend.shell import navigation
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.shell.time_range import read_time_range
from frontend.texts.allocated_use import build_use
from frontend.texts.firing import SEVERITY_TONES, describe_firing, tone_of_firing
from frontend.texts.gpu_hours import format_gpu_hours, format_money
from quotas.models import Queue
from quotas.selectors.pools.outages import stale_clusters_of
from quotas.selectors.queues.queue import queue_list
from quotas.selectors.tables.quota import sum_workspace_quota, workspace_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.models import Job
from scheduling.selectors.jobs.own_work import own_work
from scheduling.selectors.jobs.row import QueueWork, job_by_ids, job_holding_compute, job_latest, queue_work
from telemetry.series import PoolUse, UseNow, idle_allocated, jobs_now, pools_now
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import report_period, usage_report
from tenants.access import permissions
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

DEFAULT_RANGE: Final = "24h"
_LATEST = 8
_SHOWN = 6
_ALERTS = 5
_NO_WORK = QueueWork(0, None, 0, 0)


@dataclass(frozen=True, slots=True)
class PoolLine:
    """One pool: its nominal, allocated and used amounts, in GPUs."""

    name: str
    model: str
    meter: Meter
    unlimited: bool


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue: its rules, its jobs, the GPUs that they hold, and its own quota by pool, in GPUs.

    Quota of different pools is never added up; None is unlimited.
    """

    queue: Queue
    work: QueueWork
    held: float
    nominal: Sequence[tuple[str, float | None]]


@dataclass(frozen=True, slots=True)
class UseLine:
    """One running job: its allocated compute and the used part of it, in GPUs."""

    job: Job
    meter: Meter
    percent: float | None


@dataclass(frozen=True, slots=True)
class JobLine:
    """One of the newest jobs."""

    job: Job
    size: str
    waited: timedelta | None


@login_required
@row_scope.read_transaction()
def show_overview(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the whole page."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    own = {"workspace": place.slug}
    shown = read_time_range(request, DEFAULT_RANGE)
    drawn = charts_context("workspace", "frontend:workspace-overview-chart", own, {}, shown)
    return render(request, "frontend/jobs/overview.html", _page(get_viewer(request), place) | drawn)


@login_required
@row_scope.read_transaction()
def overview_live(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the changing part only."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    return render(request, "frontend/jobs/overview_body.html", _page(get_viewer(request), place))


@login_required
def overview_chart(request: HttpRequest, workspace: str, kind: str) -> HttpResponse:
    """Return one chart of the workspace as data."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    return chart_answer(
        get_viewer(request), "workspace", place.pk, kind, read_time_range(request, DEFAULT_RANGE)
    )


@login_required
def redirect_to_first_page(request: HttpRequest, workspace: str) -> HttpResponse:
    """Redirect a workspace's bare address to its overview, or to the first page that the viewer may open."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    return redirect(navigation.first_address(place.slug, permissions.permissions_on(who, place)))


def _page(who: User, place: Tenant) -> dict[str, Any]:
    now = clock.now()
    work = queue_work(viewer=who, workspace=place, failed_since=now - timedelta(hours=24))
    holding = job_holding_compute(viewer=who, workspace=place)
    largest = list(holding)[:_SHOWN]  # the largest jobs, because idle GPUs cost most there
    shown = job_by_ids(viewer=who, workspace=place, ids=largest)
    use = jobs_now(who, holding.keys())
    latest = job_latest(viewer=who, workspace=place, limit=_LATEST)
    rights = rights_of(who, place)
    used_percent = _used_of_allocated(use)
    rows = workspace_quota(who, place, [Resource.GPU_CORES]) if rights.view_quota else []
    own = [row for row in rows if not row.queue and row.is_assigned]
    memory = sum_workspace_quota(place, Resource.GPU_MEMORY) if rights.view_quota else (0, 0)
    firing = count_firing(who, place)
    waiting = [item.oldest_waiting_at for item in work.values() if item.oldest_waiting_at]
    return {
        "workspace": place,
        "rights": rights,
        "pools": _pools(own, pools_now(who, place.pk)),
        "allocated": sum(row.reserved for row in own) / 100,
        "borrowed": sum(row.borrowed for row in own) / 100,
        "lent": sum(row.lent for row in own) / 100,
        "used_percent": used_percent,
        "stale_clusters": stale_clusters_of(who, workspace=place) if used_percent is None else (),
        "running": sum(item.running for item in work.values()),
        "waiting": sum(item.waiting for item in work.values()),
        "oldest_wait": _span(min(waiting, default=None), now),
        "failed": sum(item.failed for item in work.values()),
        "month": _month(who, place),
        "mine": own_work(viewer=who, workspace=place, failed_since=now - timedelta(hours=24)),
        "memory_nominal": memory[0],
        "memory_allocated": memory[1],
        "idle": _count_idle(who, place) if use or not holding else None,
        "firing": sum(firing.values()),
        "firing_words": describe_firing(firing),
        "firing_tone": tone_of_firing(firing),
        "alerts": _alerts(who, place) if any(firing.values()) else [],
        "queues": _queues(rows, queue_list(who, place), work) if rights.view_quota else [],
        "uses": [_use_line(shown[pk], holding[pk] / 100, use.get(pk)) for pk in largest if pk in shown],
        "uses_more": max(0, len(holding) - _SHOWN),
        "latest": [JobLine(job, format_size(job), waiting_time(job, now)) for job in latest],
    }


def _month(who: User, place: Tenant) -> dict[str, Any]:
    """Return GPU-hours and cost of this month so far, as the usage report adds them up."""
    now = clock.now()
    period = report_period("", "", now=now)
    report = usage_report(who, period, group_by=GroupBy.POOL, now=now, tenant=place)
    return {
        "reserved": format_gpu_hours(report.total.reserved),
        "used": format_gpu_hours(report.total.used) if report.total.measured else "",
        "amount": format_money(report.total.amount, report.digits),
        "unpriced": report.total.unpriced > 0,
        "currency": report.currency,
    }


def _alerts(who: User, place: Tenant) -> list[tuple[Alert, str, str]]:
    """Return the most severe alerts, each with the name of its subject and the tone of its severity."""
    return [
        (alert, name_subject(alert.metric, alert.label), SEVERITY_TONES[AlertSeverity(alert.severity)])
        for alert in list_firing(who, place, limit=_ALERTS)
    ]


def _count_idle(who: User, place: Tenant) -> int:
    return idle_allocated(who, workspace=place).cards


def _span(since: datetime | None, now: datetime) -> timedelta | None:
    return None if since is None else now - since


def _used_of_allocated(use: Mapping[uuid.UUID, UseNow]) -> float | None:
    """Return the percentage of the allocated compute that is used; None without a reading."""
    allocated = sum(one.cores_allocated for one in use.values())
    return 100 * sum(one.cores_used for one in use.values()) / allocated if allocated else None


def _pools(rows: Sequence[QuotaRow], used: Mapping[uuid.UUID, PoolUse]) -> list[PoolLine]:
    return [
        PoolLine(row.flavor.name, row.flavor.card_model, _pool_meter(row, used), row.nominal is None)
        for row in sorted(rows, key=lambda row: (row.flavor.name, str(row.flavor.pk)))
        if row.nominal != 0 or row.reserved
    ]


def _pool_meter(row: QuotaRow, used: Mapping[uuid.UUID, PoolUse]) -> Meter:
    use = build_use(used.get(row.flavor.pk), Resource.GPU_CORES, row.reserved)
    return Meter(
        nominal=(row.nominal or 0) / 100,
        allocated=row.reserved / 100,
        used=None if use is None else use.used / 100,
        borrowed=row.borrowed / 100,
        lent=row.lent / 100,
        is_partly_measured=use is not None and use.is_partial,
    )


def _queues(
    rows: Sequence[QuotaRow], queues: Sequence[Queue], work: Mapping[uuid.UUID, QueueWork]
) -> list[QueueLine]:
    held: Counter[str] = Counter()
    nominal: defaultdict[str, list[tuple[str, float | None]]] = defaultdict(list)
    for row in rows:
        held[row.queue] += row.reserved
        if row.nominal != 0:
            amount = None if row.nominal is None else row.nominal / 100
            nominal[row.queue].append((row.flavor.name, amount))
    return [
        QueueLine(queue, work.get(queue.pk, _NO_WORK), held[queue.name] / 100, nominal[queue.name])
        for queue in queues
    ]


def _use_line(job: Job, cards: float, now: UseNow | None) -> UseLine:
    used = round(cards * now.utilisation_of_grant_percent / 100, 2) if now else None
    meter = Meter(nominal=cards, allocated=cards, used=used)
    return UseLine(job, meter, now.utilisation_of_grant_percent if now else None)
