"""Resizing the memory of a running GPU slice: who may request it, the dialog, and the change under way."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import Conflict
from frontend.pages.jobs.job_facts import Rights
from frontend.pages.jobs.job_tabs import JobTab, tab_address
from frontend.shell.form_actions import run_change
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts import formats
from scheduling.models import GpuRequestMode, Job, MemoryResize, ResizeState, Task, TaskState
from scheduling.selectors.allocations.resize import resizes_under_way, resizing_clusters
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.jobs.task import TaskRow, task_by_id
from scheduling.services.jobs.acting import require_stop
from scheduling.services.resizing.resize import Resizable, get_resizable, slice_memory_resize
from tenants.selectors.tenant import workspace_get

Facts = list[tuple[str, object]]


class MemoryForm(forms.Form):
    """The form with the new memory of each GPU."""

    memory = forms.IntegerField(label=gettext_lazy("Memory per GPU"), min_value=1)


@dataclass(frozen=True, slots=True)
class Offer:
    """The memory part of a task's row: the change under way, and whether the viewer may request one."""

    under_way: str = ""
    may_ask: bool = False


def list_offers(job: Job, rows: Sequence[TaskRow], rights: Rights) -> Mapping[uuid.UUID, Offer]:
    """Return the resizes on offer by task, for tasks in slices of GPUs that allow it. Two queries at most."""
    parts = [row for row in rows if _in_parts(row)]
    clusters = resizing_clusters() if parts and job.holds else frozenset()
    live = {row.allocation.pk: row for row in parts if row.allocation and _cluster(row) in clusters}
    if not live:
        return {}
    going = resizes_under_way(list(live))
    may = rights.may_stop(job)
    return {
        row.task.pk: Offer(_words(going.get(pk)), may_ask=may and pk not in going) for pk, row in live.items()
    }


@login_required
def job_memory(request: HttpRequest, workspace: str, job: str, task: uuid.UUID) -> HttpResponse:
    """Render the dialog; POST requests another memory size and returns to the job with a message."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    found = job_get(viewer=who, workspace=place, ref=job)
    one = task_by_id(viewer=who, job=found, key=task)
    require_stop(who, found)
    if request.method == "POST":
        return _ask(request, found, one)
    page = {"workspace": place, "job": found, "task": one}
    try:
        what = get_resizable(one)
    except Conflict as error:
        return render(request, "frontend/jobs/job_memory.html", page | {"refused": error.detail})
    form = MemoryForm(initial={"memory": what.memory_mib})
    form.fields["memory"].widget.attrs.update({"max": what.room.most, "autofocus": True})
    shown = page | {"form": form, "memory_facts": _facts(what)}
    return render(request, "frontend/jobs/job_memory.html", shown)


def _ask(request: HttpRequest, job: Job, task: Task) -> HttpResponse:
    form = MemoryForm(request.POST)
    if form.is_valid():
        mib = form.cleaned_data["memory"]
        word = _("Resizing %(task)s to %(memory)s per GPU. See the timeline for the result.")
        values = {"task": f"{task.role.name}-{task.index}", "memory": formats.format_memory(mib)}
        run_change(
            request,
            lambda: slice_memory_resize(acting_user=get_viewer(request), task=task, memory_mib=mib),
            word % values,
        )
    else:
        messages.error(request, _("Enter a whole number of MiB, 1 or more."))
    return redirect(tab_address(job.workspace.slug, job.pk, JobTab.TASKS))


def _facts(what: Resizable) -> Facts:
    facts: Facts = [(_("Now"), formats.format_memory(what.memory_mib))]
    if what.cards > 1:
        facts.append((_("GPUs"), formats.format_number(what.cards)))
    used = formats.MISSING if what.used_mib is None else formats.format_memory(what.used_mib)
    quota = what.room.in_quota
    return [
        *facts,
        (_("Current usage"), used),
        (
            _("Available on the GPU"),
            _("Up to %(memory)s") % {"memory": formats.format_memory(what.room.on_card)},
        ),
        (
            _("Available in quota"),
            _("unlimited")
            if quota is None
            else _("Up to %(memory)s") % {"memory": formats.format_memory(quota)},
        ),
    ]


def _in_parts(row: TaskRow) -> bool:
    running = row.task.state == TaskState.RUNNING and row.task.role.gpu_mode == GpuRequestMode.SLICE
    return running and bool(row.slices) and not any(part.exclusive for part in row.slices)


def _cluster(row: TaskRow) -> uuid.UUID | None:
    return row.allocation.node.cluster_id if row.allocation else None


def _words(resize: MemoryResize | None) -> str:
    if resize is None:
        return ""
    if resize.state == ResizeState.TAKING_BACK:
        return _("reverted to %(memory)s (timed out)") % {"memory": formats.format_memory(resize.from_mib)}
    sizes = {"from": formats.format_memory(resize.from_mib), "to": formats.format_memory(resize.to_mib)}
    return _("Resizing: %(from)s → %(to)s") % sizes
