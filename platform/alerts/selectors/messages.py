"""The messages of one user."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from django.db.models import Q, QuerySet

from alerts.models import JobWatch, MessageKind, UserMessage
from foundation.web.listing import Column, ColumnKind
from scheduling.models import Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

MESSAGE_COLUMNS: Final = {
    "kind": Column("kind"),
    "event": Column("event"),
    "tenant": Column("tenant.slug"),
    "created_at": Column("created_at", ColumnKind.TIME),
    "read_at": Column("read_at", ColumnKind.TIME),
}
"""The columns by which a list of messages can be filtered."""


def list_messages(viewer: User) -> QuerySet[UserMessage]:
    """The user's own messages about subjects that the user may still see, newest first.

    Messages about alerts, jobs and preemptions need the permission to view jobs, the answer to one's own
    quota request only a visible tenant, and messages about the platform the permission to view clusters.
    """
    of_jobs = permissions.tenants_with(viewer, Permission.JOB_VIEW)
    sight = Q(tenant__in=of_jobs)
    sight |= Q(kind=MessageKind.REQUEST, tenant__in=permissions.visible_tenants(viewer))
    if permissions.has_permission(viewer, Permission.CLUSTER_VIEW):
        sight |= Q(tenant__isnull=True)
    rows = UserMessage.unscoped.filter(sight, user=viewer)
    return rows.select_related("tenant").order_by("-created_at", "-pk")


def count_unread(viewer: User, *, limit: int) -> int:
    """Count the unread messages that `list_messages` shows, at most `limit`."""
    unread = list_messages(viewer).filter(read_at__isnull=True).select_related(None).order_by()
    return unread[:limit].count()


def list_new_messages(
    above: datetime | None, limit: int
) -> QuerySet[UserMessage, tuple[datetime, uuid.UUID, uuid.UUID]]:
    """Return time, id and user of the newest messages, or only of those after a time."""
    rows = UserMessage.unscoped.all() if above is None else UserMessage.unscoped.filter(created_at__gt=above)
    return rows.order_by("-created_at", "-pk").values_list("created_at", "pk", "user_id")[:limit]


def is_watching(viewer: User, job: Job) -> bool:
    """Return whether the user asked for messages about a job."""
    return JobWatch.unscoped.filter(user=viewer, job=job).exists()
