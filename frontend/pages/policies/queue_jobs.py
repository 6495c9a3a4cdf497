"""The tables of a queue's jobs: pending ones in the order of the queue, and admitted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.paginator import Page, Paginator

from foundation.core import clock
from frontend.pages.jobs.addresses import job_address
from frontend.pages.jobs.job_facts import format_size, run_time, time_until_preemptible, waiting_time
from frontend.pages.policies.queue_timeline import StartRanges, describe_start
from frontend.texts import formats
from frontend.texts.queue_order import describe_queue_order
from quotas.models import Queue
from scheduling.models import Job
from scheduling.selectors.jobs.queue_jobs import count_held_gpus, queue_admitted_jobs, queue_pending_jobs
from scheduling.services.start_prediction.queue_times import list_pending_times
from tenants.models import User

PER_PAGE: Final = 10
PENDING_PAGE: Final = "page"
ADMITTED_PAGE: Final = "admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLine:
    """A pending job at its position, from 1, with what remains of the ranges of its expected start."""

    position: int
    job: Job
    url: str
    size: str
    since: datetime
    waited: timedelta | None
    start: StartRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedLine:
    """An admitted job: its GPUs, how many of them are borrowed, its run time, and the end of its guaranteed
    run time; None if that doesn't protect it now.
    """

    job: Job
    url: str
    gpus: str
    borrowed: str
    ran: timedelta | None
    guaranteed_until: datetime | None


def describe_jobs(viewer: User, queue: Queue, pages: dict[str, str]) -> dict[str, Any]:
    """Return the values of the tables of a queue's jobs; `pages` are the page numbers in the address.

    Raises: NotFound, PermissionDenied.
    """
    now = clock.now()
    pending = _page_of(queue_pending_jobs(viewer=viewer, queue=queue), pages.get(PENDING_PAGE))
    admitted = _page_of(queue_admitted_jobs(viewer=viewer, queue=queue), pages.get(ADMITTED_PAGE))
    return {
        "pending_page": pending,
        "pending_lines": _pending_lines(list(pending), pending.start_index(), now),
        "admitted_page": admitted,
        "admitted_lines": _admitted_lines(list(admitted), now),
        "queue_order": describe_queue_order(queue),
    }


def _page_of(jobs: Any, number: str | None) -> Page[Job]:
    return Paginator(jobs, PER_PAGE).get_page(number)


def _pending_lines(jobs: Sequence[Job], first: int, now: datetime) -> list[PendingLine]:
    return [
        PendingLine(
            position=first + place,
            job=one.job,
            url=job_address(one.job.workspace.slug, one.job.pk),
            size=format_size(one.job),
            since=one.job.queued_since,
            waited=waiting_time(one.job, now),
            start=describe_start(one, now),
        )
        for place, one in enumerate(list_pending_times(jobs))
    ]


def _admitted_lines(jobs: Sequence[Job], now: datetime) -> list[AdmittedLine]:
    held = count_held_gpus(jobs)
    found = []
    for job in jobs:
        gpus = held.get(job.pk)
        found.append(
            AdmittedLine(
                job=job,
                url=job_address(job.workspace.slug, job.pk),
                gpus=_format_gpus(gpus.held if gpus else 0),
                borrowed=_format_gpus(gpus.borrowed if gpus else 0),
                ran=run_time(job, now),
                guaranteed_until=now + left if (left := time_until_preemptible(job, now)) else None,
            )
        )
    return found


def _format_gpus(amount: float) -> str:
    return formats.format_number(amount, 0 if amount == int(amount) else 2) if amount else formats.MISSING
