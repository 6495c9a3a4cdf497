"""The largest jobs that start now: a part of the form of a new job, and the form filled with one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core import clock
from foundation.core.numbers import read_whole
from foundation.core.reasons import Reason
from frontend.pages.submission.free_fragments import describe_fragments
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts import formats, reasons
from quotas.selectors.queues.queue import queue_get
from scheduling.services.jobs.startable import (
    TASKS_MAX,
    StartableJob,
    StartablePool,
    TaskSize,
    find_startable,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.selectors.tenant import workspace_get

_MODEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One shape of a task, and the number that starts. `url` opens the form with that job; empty if none
    starts.
    """

    model: str
    pools: str
    task: str
    beside: str
    tasks: str
    limit: str
    url: str


@login_required
def job_sizes(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the largest jobs that start now in the queue `?queue=`."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    queue = queue_get(who, place, request.GET.get("queue", ""))
    address = reverse("frontend:job-new", args=(place.slug,))
    pools, now = find_startable(viewer=who, queue=queue), clock.now()
    page = {
        "rows": [_row(pool, found, queue.name, address) for pool in pools for found in pool.jobs],
        "fragments": [found for pool in pools if (found := describe_fragments(who, pool, now))],
        "queue": queue.name,
    }
    return render(request, "frontend/jobs/startable.html", page)


def read_size(given: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values of a role of the form from the query of a row's link; None without valid values."""
    most = {"tasks": TASKS_MAX, "gpus": 8, "percent": 100, "cpu": 10**7, "memory_mib": 10**9}
    found = {name: read_whole(given.get(name, ""), most=limit) for name, limit in most.items()}
    model = given.get("model", "")
    if not model or len(model) > _MODEL_LENGTH or any(value is None for value in found.values()):
        return None
    percent = found["percent"] or 0
    return {
        "name": "main",
        "replicas": found["tasks"],
        "cpu": f"{(found['cpu'] or 0) / 1000:g}",
        "role_memory": f"{found['memory_mib']}Mi",
        "gpu": f"{'slice' if percent else 'whole'}:{model}",
        "cards": found["gpus"] or 1,
        "cores": percent or 30,
        "memory": f"{percent or 30}%",
    }


def _row(pool: StartablePool, found: StartableJob, queue: str, address: str) -> SizeRow:
    shape, tasks = found.shape, found.tasks
    values = {
        "queue": queue, "model": pool.model, "tasks": tasks, "gpus": shape.gpus, "percent": shape.percent,
        "cpu": shape.cpu, "memory_mib": shape.memory_mib,
    }  # fmt: skip
    words = {"cpu": f"{shape.cpu / 1000:g}", "memory": formats.format_memory(shape.memory_mib)}
    return SizeRow(
        model=pool.model,
        pools=", ".join(one.flavor.name for one in pool.pools),
        task=_task(shape),
        beside=_("%(cpu)s CPU cores, %(memory)s") % words,
        tasks=("" if found.reason else "≥ ") + formats.format_number(tasks),
        limit=_limit(found),
        url=f"{address}?{urlencode(values)}" if tasks else "",
    )


def _task(shape: TaskSize) -> str:
    if shape.percent:
        return _("%(percent)s %% of a GPU") % {"percent": shape.percent}
    return ngettext("%(n)s GPU", "%(n)s GPUs", shape.gpus) % {"n": shape.gpus}


def _limit(found: StartableJob) -> str:
    """Return why one more task would not start."""
    if found.reason == Reason.WAITING_FOR_PREEMPTED:
        return _("More tasks would preempt jobs")
    if found.reason:
        return reasons.reason_title(found.reason)
    if found.tasks == TASKS_MAX:
        return _("Larger jobs weren't previewed")
    return _("Not predicted")
