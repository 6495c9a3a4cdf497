"""The pending jobs right now: how many, how long, where, and why."""

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
    """Jobs in line. `median_since` halves them: one half entered the queue before it, one half after."""

    jobs: int
    oldest_since: datetime | None
    median_since: datetime | None
    by_reason: Mapping[str, int]
    by_workspace: Mapping[uuid.UUID, int]


def waiting_now(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> Waiting:
    """Waiting jobs of the whole platform, or of the queues that may use a cluster.

    Reasons come with the most frequent first. Three queries, whatever the number of jobs.
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
