"""Drains nodes: a node is cordoned, and then the jobs on it are evicted and queued again.

No job is evicted before the cluster has confirmed the cordon, so a refused cordon stops no job.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from clusters.models import Node, NodeCordon, NodeEvent
from clusters.services.node_cordon import request_cordon
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from scheduling.engine.model import EvictRule
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import RUNNING_STATES, Allocation, Job, JobState
from scheduling.selectors.allocations.node_drain import preview_drain

log = structlog.get_logger(__name__)
_LIMIT: Final = 200
BY_OPERATOR: Final = "operator"
"""The value of `by` in the event of an eviction from a node that an operator drains."""


def _draining() -> QuerySet[NodeCordon, tuple[uuid.UUID, uuid.UUID, str, str]]:
    rows = NodeCordon.unscoped.filter(
        drain=True,
        applied_at__isnull=False,
        drained_at__isnull=True,
        ended_at__isnull=True,
        node__cordoned=True,
    )
    return rows.order_by("id").values_list("pk", "node_id", "node__name", "requested_by")


_DRAINING: Final = PreparedQuery(_draining)


def node_drain(*, acting_user: Actor, node: Node, reason: str = "") -> NodeCordon | None:
    """Request that a node is cordoned and the jobs on it are evicted and queued again.

    Foreign pods stay. A node that is being drained does not change, unless a new reason is given. Raises:
    PermissionDenied; NotFound for a node that no longer exists; ClusterUnreachable; Invalid for the reason.
    """
    with transaction.atomic():
        found = preview_drain(viewer=acting_user, node=node)
        noted = {"jobs": len(found.jobs), "lost_gpu_hours": round(found.lost_gpu_hours, 2)}
        return request_cordon(acting_user=acting_user, node=node, reason=reason, drain=True, noted=noted)


def evict_from_draining(*, now: datetime) -> None:
    """Evict the jobs on nodes that are being drained, and record the nodes without any allocation as
    drained."""
    for cordon_id, node_id, name, actor in _DRAINING():
        held = Allocation.unscoped.filter(node=node_id, released_at__isnull=True)
        jobs = Job.unscoped.filter(
            Exists(held.filter(attempt__job=OuterRef("pk"))), state__in=RUNNING_STATES
        ).order_by("id")[:_LIMIT]
        for job in jobs:
            _evict(job, name, actor, now)
        if not jobs and not held.exists():
            _note_drained(cordon_id, node_id, now)


def _evict(job: Job, node: str, actor: str, now: datetime) -> None:
    try:
        with transaction.atomic():
            begin_eviction(
                job=job,
                rule=EvictRule.NODE_DRAINED.value,
                then=JobState.QUEUED,
                now=now,
                actor=actor,
                numbers={"node": node, "by": BY_OPERATOR},
            )
    except StaleJob:
        log.info("job moved on before its node was drained", job=str(job.pk))


@transaction.atomic
def _note_drained(cordon_id: uuid.UUID, node_id: uuid.UUID, now: datetime) -> None:
    rows = NodeCordon.unscoped.filter(pk=cordon_id, drained_at__isnull=True, ended_at__isnull=True)
    if rows.update(drained_at=now):
        NodeEvent.unscoped.create(node_id=node_id, at=now, code="drain-done")
