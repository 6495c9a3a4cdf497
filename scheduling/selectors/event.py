"""Reading a job's story."""

from __future__ import annotations

from dataclasses import dataclass

from foundation.actor import Actor
from scheduling.models import Job, JobEvent
from tenants import permissions
from tenants.permissions import Permission


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, oldest first. `next` continues after the last of them; None at the end."""

    items: list[JobEvent]
    total: int
    next: int | None


def job_events(*, viewer: Actor, job: Job, after: int = 0, limit: int = 100) -> EventPage:
    """The events of a job whose id is above `after`.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require(viewer, Permission.JOB_VIEW, job.workspace)
    events = JobEvent.unscoped.filter(job=job)
    items = list(events.filter(pk__gt=after).order_by("pk")[: limit + 1])
    more = len(items) > limit
    items = items[:limit]
    return EventPage(items, events.count(), items[-1].pk if more else None)
