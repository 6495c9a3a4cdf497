"""The current pending jobs: their number, waiting time, workspaces and reasons."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count
from django.db.models.functions import Coalesce

from foundation.core.actor import Actor
from foundation.core.reasons import Reason
from quotas.models import QueueFlavor
from scheduling.models import PENDING_STATES, Job
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pending jobs. One half entered the queue before `median_since`, the other half after it."""

    jobs: int
    oldest_since: datetime | None
    median_since: datetime | None
    by_reason: Mapping[str, int]
    by_workspace: Mapping[uuid.UUID, int]


def waiting_now(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> Waiting:
    """Return the pending jobs of the whole platform, or of the queues that may use a cluster.

    The most frequent reasons come first. It takes three queries for any number of jobs.
    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    jobs = Job.unscoped.filter(state__in=PENDING_STATES)
    if cluster_id is not None:
        queues = QueueFlavor.unscoped.filter(flavor__cluster_id=cluster_id).values("queue_id")
        jobs = jobs.filter(queue_id__in=queues)
    reasons: Counter[str] = Counter()
    workspaces: Counter[uuid.UUID] = Counter()
    for workspace, reason, count in (
        jobs.order_by().values_list("workspace_id", "reason").annotate(count=Count("pk"))
    ):
        reasons[reason or Reason.PENDING_EVALUATION] += count
        workspaces[workspace] += count
    total = reasons.total()
    since = Coalesce("queued_at", "submitted_at")
    times = jobs.annotate(since=since).order_by("since", "pk").values_list("since", flat=True)
    oldest = times.first() if total else None
    middle = times[(total - 1) // 2 : (total - 1) // 2 + 1].first() if total else None
    ordered = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    return Waiting(total, oldest, middle, ordered, dict(workspaces))
