"""Reads the events of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from foundation.core.actor import Actor
from foundation.web.listing import Column, ColumnCondition, ColumnKind, filter_rows
from scheduling.models import Job, JobEvent
from tenants.access import permissions
from tenants.access.permissions import Permission

COLUMNS: Final = {
    "code": Column("code", sortable=False),
    "actor": Column("actor", sortable=False),
    "at": Column("at", ColumnKind.TIME, sortable=False),
}
"""The columns by which the events of a job can be filtered."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, oldest first. `next` continues after the last of them; None at the end."""

    items: list[JobEvent]
    next: int | None


def job_events(
    *, viewer: Actor, job: Job, after: int = 0, limit: int = 100, conditions: Sequence[ColumnCondition] = ()
) -> EventPage:
    """Return the events of a job whose id is above `after`, and that meet the conditions on `COLUMNS`.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    events = filter_rows(JobEvent.unscoped.filter(job=job), conditions)
    items = list(events.filter(pk__gt=after).order_by("pk")[: limit + 1])
    more = len(items) > limit
    items = items[:limit]
    return EventPage(items, items[-1].pk if more else None)


def job_cause(*, viewer: Actor, job: Job) -> dict[str, Any]:
    """Return why a job was last evicted: the rule, with pod, exit code, reason and message if the cluster
    reported them; empty for a job that never was.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    last = JobEvent.unscoped.filter(job=job, code="evicting").order_by("-pk").first()
    return dict(last.numbers) if last else {}
