"""The sweep: finds due work in rows and adds hints for it, in case a hint was lost."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from clusters.models import ADMITS_ITSELF, Cell, Cluster, NodeCordon
from foundation.core import clock, faults
from foundation.core.reasons import Reason
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery
from scheduling.lifecycle.job_lifecycle import begin_eviction, settle_jobs
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import (
    Allocation,
    Attempt,
    Claim,
    Job,
    JobState,
    MemoryResize,
    ResizeState,
)
from scheduling.services import unusable
from scheduling.services.idle import enforce_idle_rules
from scheduling.services.node_drain import evict_from_draining
from scheduling.services.obstacles import obstacles_note
from scheduling.services.resizing.by_use import forget_stale_use
from scheduling.services.resizing.resize_settle import resize_give_up
from scheduling.services.start_limit import end_slow_starts

log = structlog.get_logger(__name__)
_RECHECK: Final = timedelta(seconds=15)
_LIMIT: Final = 200

_OVER_TIME: Final = PreparedQuery(
    lambda now: Job.unscoped.filter(state=JobState.RUNNING, deadline_at__lt=now).order_by("id")[:_LIMIT]
)
_CELLS_LONG_UNSEEN: Final = PreparedQuery(
    lambda before: Cell.unscoped.filter(
        Q(last_cycle_at__isnull=True) | Q(last_cycle_at__lt=before)
    ).values_list("id")
)
_ENDED_CLAIMS: Final = PreparedQuery(
    lambda now: Claim.unscoped.filter(expires_at__lte=now).values_list("job__queue__cell_id")
)


def _cells_with_news(now: datetime) -> QuerySet[Job, tuple[uuid.UUID]]:
    unseen = Q(reason=Reason.PENDING_EVALUATION) | Q(reason=Reason.BACKOFF, backoff_until__lte=now)
    return Job.unscoped.filter(unseen, state=JobState.QUEUED).values_list("queue__cell_id").distinct()


def _without_pods() -> QuerySet[Job]:
    leaving = Job.unscoped.filter(state__in=(JobState.EVICTING, JobState.STOPPING))
    present = Allocation.unscoped.filter(attempt__job=OuterRef("pk"), removed_at__isnull=True)
    return leaving.filter(~Exists(present)).select_related("queue").order_by("id")[:_LIMIT]


def _clusters_with_pods_to_change() -> QuerySet[Allocation, tuple[uuid.UUID]]:
    to_create = Q(ensured_at__isnull=True, removal_asked_at__isnull=True, released_at__isnull=True)
    to_remove = Q(removal_asked_at__isnull=False, removed_at__isnull=True)
    return Allocation.unscoped.filter(to_create | to_remove).values_list("node__cluster_id").distinct()


def _clusters_with_gangs_to_end() -> QuerySet[Allocation, tuple[uuid.UUID]]:
    gathered = Attempt.unscoped.filter(gathered_at__isnull=False, ended_at__isnull=False)
    return Allocation.unscoped.filter(attempt__in=gathered).values_list("node__cluster_id").distinct()


def _pending_cordons() -> QuerySet[NodeCordon, tuple[uuid.UUID]]:
    pending = NodeCordon.unscoped.filter(applied_at__isnull=True, ended_at__isnull=True, node__present=True)
    return pending.values_list("node__cluster_id").distinct()


def _open_resizes() -> QuerySet[MemoryResize, tuple[uuid.UUID]]:
    """Return the clusters with open changes of the GPU memory of running tasks."""
    there = {"allocation__ensured_at__isnull": False, "allocation__removal_asked_at__isnull": True}
    live = MemoryResize.unscoped.filter(ended_at__isnull=True, **there)
    return live.values_list("allocation__node__cluster_id").distinct()


_CELLS_WITH_NEWS: Final = PreparedQuery(_cells_with_news)
_OPEN_RESIZES: Final = PreparedQuery(_open_resizes)
_PENDING_CORDONS: Final = PreparedQuery(_pending_cordons)
_OVERDUE: Final = PreparedQuery(
    lambda now: MemoryResize.unscoped.filter(
        ended_at__isnull=True, state=ResizeState.ASKED, deadline_at__lte=now
    ).values_list("pk")
)
_WITHOUT_PODS: Final = PreparedQuery(_without_pods)
_WITH_PODS_TO_CHANGE: Final = PreparedQuery(_clusters_with_pods_to_change)
_GANGS_TO_END: Final = PreparedQuery(_clusters_with_gangs_to_end)
_THAT_ADMIT: Final = PreparedQuery(
    lambda: Cluster.unscoped.filter(backend__in=ADMITS_ITSELF).order_by("pk").values_list("pk")
)


def sweep_cells() -> None:
    """Evict and settle jobs, end claims and changes, and add hints for cycles and clusters, as rows
    require."""
    now = clock.now()
    _evict_over_time(now)
    _evict_from_nodes(now)
    evict_from_draining(now=now)
    _settle_leaving(now)
    obstacles_note(now=now)
    _end_claims(now)
    _give_up_resizes(now)
    faults.fault_point("sweep.before_hints")
    _hint_cells(now)
    _hint_clusters()


def watch_starts() -> None:
    """End starts that take too long, record tasks of running jobs that do not start, and enforce idle rules.

    It is called less often than the sweep, because it examines all running jobs.
    """
    now = clock.now()
    enforce_idle_rules(now)
    forget_stale_use(now)
    end_slow_starts(now=now)
    obstacles_note(now=now, running=True)


def _hint_cells(now: datetime) -> None:
    """Add hints for cells with a job that no cycle has evaluated or whose back-off is over, or without a
    cycle for a while."""
    due = {*_CELLS_WITH_NEWS(now), *_CELLS_LONG_UNSEEN(now - _RECHECK)}
    for (cell_id,) in sorted(due):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id)


def _hint_clusters() -> None:
    for (cluster_id,) in sorted(
        {*_WITH_PODS_TO_CHANGE(), *_GANGS_TO_END(), *_OPEN_RESIZES(), *_PENDING_CORDONS()}
    ):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster_id)
    for (cluster_id,) in _THAT_ADMIT():
        outbox.add_hint(outbox.Topic.DELEGATE, cluster_id)


def hint_observation() -> None:
    """Add a hint to observe every cluster."""
    for cluster_id in Cluster.unscoped.order_by("id").values_list("id", flat=True):
        outbox.add_hint(outbox.Topic.OBSERVE, cluster_id)


def _evict_all(
    jobs: Iterable[Job],
    rule: str,
    then: JobState,
    now: datetime,
    *,
    because: Mapping[uuid.UUID, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Evict these jobs; `because` has more numbers of the cause, by job."""
    for job in jobs:
        numbers = because.get(job.pk)
        try:
            with transaction.atomic():
                begin_eviction(job=job, rule=rule, then=then, now=now, numbers=numbers)
        except StaleJob:
            log.info("job moved on before the sweep", job=str(job.pk), rule=rule)


def _evict_over_time(now: datetime) -> None:
    _evict_all(_OVER_TIME(now), "TIME_LIMIT", JobState.FAILED, now)


def _evict_from_nodes(now: datetime) -> None:
    """Evict jobs whose node is lost or drained by a taint, or whose card is known to have failed."""
    for rule, found in (
        ("NODE_LOST", unusable.on_lost_nodes(now=now)),
        ("NODE_DRAINED", unusable.on_drained_nodes()),
        ("DEVICE_UNHEALTHY", unusable.on_broken_cards(now=now)),
    ):
        if found:
            jobs = Job.unscoped.filter(pk__in=found).order_by("id")
            _evict_all(jobs, rule, JobState.QUEUED, now, because=found)


def _end_claims(now: datetime) -> None:
    """Delete expired claims; their jobs are evaluated in their order, without a claim."""
    cells = set(_ENDED_CLAIMS(now))
    if not cells:
        return
    with transaction.atomic():
        Claim.unscoped.filter(expires_at__lte=now).delete()
        for (cell_id,) in sorted(cells):
            outbox.add_hint(outbox.Topic.CYCLE, cell_id)


def _give_up_resizes(now: datetime) -> None:
    """Give up changes of memory that no cluster has confirmed in time."""
    for (resize_id,) in sorted(_OVERDUE(now)):
        resize_give_up(resize_id=resize_id, now=now)


def _settle_leaving(now: datetime) -> None:
    """Settle jobs whose last pod has ended, but whose state was not changed."""
    for job in _WITHOUT_PODS():
        try:
            with transaction.atomic():
                settle_jobs([job], now=now)
        except StaleJob:
            log.info("job moved on before the sweep", job=str(job.pk))
