"""The resources that a job holds and uses now, or its end, as facts."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core.quantities import format_cpu
from frontend.pages.jobs.addresses import gpu_address, node_address
from frontend.pages.jobs.events import event_rows
from frontend.pages.jobs.job_facts import cards_of, run_time, time_until_preemptible, waiting_time
from frontend.pages.jobs.resources.job_memory import Offer
from frontend.texts import formats, labels
from scheduling.metering.intervals import borrowed_percent
from scheduling.models import Job, TaskState
from scheduling.selectors.allocations.job_holds import JobHolds
from scheduling.selectors.jobs.task import TaskRow
from telemetry.series import UseNow

Facts = list[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task in the table; `card_links`: index and address of each GPU that is a link, `uuids`: index and
    UUID of each of its GPUs.
    """

    row: TaskRow
    node: str
    node_url: str
    cards: str
    card_links: Sequence[tuple[str, str]]
    uuids: Sequence[tuple[int, str]]
    cores: str
    memory: str
    ran: object
    offer: Offer | None


def task_lines(
    rows: Sequence[TaskRow], now: datetime, linked: bool, offers: Mapping[uuid.UUID, Offer]
) -> list[TaskLine]:
    """Return the rows of the task table; with `linked`, nodes link to the operators' page."""
    return [_task_line(row, now, linked, offers.get(row.task.pk)) for row in rows]


def _task_line(row: TaskRow, now: datetime, linked: bool, offer: Offer | None) -> TaskLine:
    task, role, allocation = row.task, row.task.role, row.allocation
    node = allocation.node.name if allocation else ""
    url = node_address(node, allocation.node.cluster.name) if allocation and linked else ""
    links = [(str(p.device.index), gpu_address(p.device.uuid)) for p in row.slices] if linked else []
    if row.slices:
        cards = _places([part.device.index for part in row.slices])
        cores = formats.format_percent(row.slices[0].cores)
        memory = formats.format_memory(row.slices[0].memory_mib)
    elif role.gpu_cards:
        cards = f"{role.gpu_cards} × {' / '.join(role.gpu_models) or 'GPU'}"
        cores = formats.format_percent(role.gpu_cores)
        memory = formats.format_memory(role.gpu_memory_mib)
    else:
        cards = cores = memory = formats.MISSING
    end = task.finished_at or (now if task.state == TaskState.RUNNING else None)
    span = end - task.started_at if end and task.started_at else None
    uuids = sorted((part.device.index, part.device.uuid) for part in row.slices)
    return TaskLine(row, node, url, cards, links, uuids, cores, memory, span, offer)


def _places(indices: Sequence[int]) -> str:
    """Return GPUs of a node by index, neighbours joined: `GPU 0–3, 6`."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return "GPU " + ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def allocation_facts(job: Job, rows: Sequence[TaskRow], holds: JobHolds, now: datetime) -> Facts:
    """Return the allocation of an admitted job; if it requests GPUs, also their number and how many are
    borrowed.
    """
    live = [row for row in rows if row.allocation is not None]
    nodes = sorted({row.allocation.node.name for row in live if row.allocation})
    pools = sorted({row.allocation.flavor.name for row in live if row.allocation})
    facts: Facts = []
    if whole := cards_of(job):
        facts += [
            (_("GPUs"), _gpus(holds.gpus, whole)),
            (_("GPU memory"), formats.format_memory(holds.gpu_memory_mib)),
        ]
    facts += [
        (_("CPU cores"), format_cpu(holds.cpu_millicores)),
        (_("Memory"), formats.format_memory(holds.memory_mib)),
        (_("Pool"), ", ".join(pools) or formats.MISSING),
        (_("Nodes"), ", ".join(nodes[:4]) + (" …" if len(nodes) > 4 else "") or formats.MISSING),
        *([(_("Borrowed at admission"), _borrowed(live))] if whole else []),
        (_("Since"), formats.clock_html(job.admitted_at) if job.admitted_at else formats.MISSING),
        (_("Preemptible"), _preemption(job, now)),
    ]
    return facts


def _gpus(count: int, whole: float) -> str:
    if count == whole:
        return formats.format_number(count)
    word = ngettext(
        "%(count)s slice (%(whole)s GPU equivalents)", "%(count)s slices (%(whole)s GPU equivalents)", count
    )
    return word % {
        "count": formats.format_number(count),
        "whole": formats.format_number(whole, 0 if whole == int(whole) else 1),
    }


def _borrowed(rows: Sequence[TaskRow]) -> str:
    allocations = [row.allocation for row in rows if row.allocation is not None]
    if not allocations:
        return _("None")
    held: Counter[str] = Counter()
    for one in allocations:
        held.update({f"{one.flavor_id}/{resource}": amount for resource, amount in one.charge.items()})
    percent = borrowed_percent(allocations[0].attempt.borrowed, held)
    return formats.format_gpus(percent, digits=2) if percent else _("None")


def _preemption(job: Job, now: datetime) -> object:
    if not job.preemptible:
        return _("No")
    if left := time_until_preemptible(job, now):
        return _("Not before %(span)s") % {"span": formats.format_duration(left)}
    return _("Yes, by the preemption settings of queues")


def measured_facts(job: Job, now: UseNow | None) -> Facts:
    """Return the last measurements of a job."""
    if now is None:
        return []
    amounts = {
        "used": formats.format_memory(now.memory_used_mib),
        "granted": formats.format_memory(now.memory_allocated_mib),
    }
    return [
        (_("GPU memory"), _("%(used)s of %(granted)s") % amounts),
        (_("Last updated"), formats.clock_html(now.at, seconds=True)),
    ]


def end_facts(job: Job, now: datetime, cause: Mapping[str, Any]) -> Facts:
    """Return how a job ended; `cause` is the cluster's own explanation."""
    time = run_time(job, now)
    facts: Facts = []
    if job.end_reason:
        facts.append((_("Cause"), labels.rule_word(job.end_reason)))
    if said := event_rows.describe_ending(cause):
        facts.append((_("Cluster message"), said))
    return [
        *facts,
        (_("Ended"), formats.clock_html(job.finished_at) if job.finished_at else formats.MISSING),
        (_("Run time"), formats.format_duration(time)),
        (_("Wait time"), formats.format_duration(waiting_time(job, now))),
        (_("Attempts"), formats.format_number(job.attempt_number)),
    ]
