"""The sweep: looks at rows and asks for whatever is still owed, in case a hint was lost."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from clusters.models import ADMITS_ITSELF, Cell, Cluster, ClusterHealth
from foundation import clock, faults, outbox
from scheduling.models import Allocation, Attempt, Claim, Job, JobState
from scheduling.services import unusable
from scheduling.services.lifecycle import begin_eviction, settle
from scheduling.transitions import StaleJob

log = structlog.get_logger(__name__)
_STARTING: Final = (JobState.ADMITTED, JobState.STARTING)
_RUNNING: Final = (*_STARTING, JobState.RUNNING)
_RECHECK: Final = timedelta(seconds=15)
# An image that cannot be pulled, a volume that does not come: long enough for a large image.
_START_GRACE: Final = timedelta(minutes=30)
_LIMIT: Final = 200


def sweep() -> None:
    """Ask for every cycle, execution and settlement that rows say is due."""
    now = clock.now()
    _evict_over_time(now)
    _evict_from_nodes(now)
    _evict_not_ready(now)
    _settle_leaving(now)
    _end_claims(now)
    faults.point("sweep.before_hints")
    _hint_cells(now)
    _hint_clusters()


def _hint_cells(now: datetime) -> None:
    """Cells with a job that no cycle has seen, one whose pause has ended, or no look for a while."""
    unseen = Q(reason="PENDING_EVALUATION") | Q(reason="BACKOFF", backoff_until__lte=now)
    waiting = Job.unscoped.filter(state=JobState.QUEUED)
    due = set(waiting.filter(unseen).values_list("queue__cell_id", flat=True).distinct())
    stale = Q(last_cycle_at__isnull=True) | Q(last_cycle_at__lt=now - _RECHECK)
    due |= set(Cell.unscoped.filter(stale).values_list("id", flat=True))
    for cell_id in sorted(due):
        outbox.hint(outbox.Topic.CYCLE, cell_id)


def _hint_clusters() -> None:
    to_create = Q(ensured_at__isnull=True, removal_asked_at__isnull=True, released_at__isnull=True)
    to_remove = Q(removal_asked_at__isnull=False, removed_at__isnull=True)
    owed = Allocation.unscoped.filter(to_create | to_remove).values_list("node__cluster_id", flat=True)
    gathered = Attempt.unscoped.filter(gathered_at__isnull=False, ended_at__isnull=False)
    held = Allocation.unscoped.filter(attempt__in=gathered).values_list("node__cluster_id", flat=True)
    for cluster_id in sorted({*owed.distinct(), *held.distinct()}):
        outbox.hint(outbox.Topic.EXECUTE, cluster_id)
    others = Cluster.unscoped.filter(backend__in=ADMITS_ITSELF).order_by("pk")
    for cluster_id in others.values_list("pk", flat=True):
        outbox.hint(outbox.Topic.DELEGATE, cluster_id)


def hint_observation() -> None:
    """Ask for a look at every cluster."""
    for cluster_id in Cluster.unscoped.order_by("id").values_list("id", flat=True):
        outbox.hint(outbox.Topic.OBSERVE, cluster_id)


def _evict_all(
    jobs: Iterable[Job],
    rule: str,
    then: JobState,
    now: datetime,
    *,
    backoff: bool = False,
    because: Mapping[uuid.UUID, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """`because` tells more of the cause, by job."""
    for job in jobs:
        told = because.get(job.pk)
        try:
            with transaction.atomic():
                begin_eviction(job=job, rule=rule, then=then, now=now, backoff=backoff, numbers=told)
        except StaleJob:
            log.info("job moved on before the sweep", job=str(job.pk), rule=rule)


def _evict_over_time(now: datetime) -> None:
    over = Job.unscoped.filter(state=JobState.RUNNING, deadline_at__lt=now)
    _evict_all(list(over.order_by("id")[:_LIMIT]), "TIME_LIMIT", JobState.FAILED, now)


def _evict_from_nodes(now: datetime) -> None:
    """Jobs whose nodes are lost or being drained, or of which a card is known to have failed."""
    held = Allocation.unscoped.filter(released_at__isnull=True, attempt__job__state__in=_RUNNING)
    for rule, found in (
        ("NODE_LOST", unusable.on_lost_nodes(held, now=now)),
        ("NODE_DRAINED", unusable.on_drained_nodes(held)),
        ("DEVICE_UNHEALTHY", unusable.on_broken_cards(held, now=now)),
    ):
        jobs = Job.unscoped.filter(pk__in=found).order_by("id")
        _evict_all(jobs, rule, JobState.QUEUED, now, because=found)


def _evict_not_ready(now: datetime) -> None:
    """Jobs that were admitted long ago and do not run, unless their cluster cannot be asked."""
    pending = Job.unscoped.filter(state__in=_STARTING, admitted_at__lt=now - _START_GRACE)
    unheard = Allocation.unscoped.filter(
        attempt__job=OuterRef("pk"),
        released_at__isnull=True,
        node__cluster__health=ClusterHealth.UNREACHABLE,
    )
    late = list(pending.filter(~Exists(unheard)).order_by("id")[:_LIMIT])
    _evict_all(late, "NOT_READY", JobState.QUEUED, now, backoff=True)


def _end_claims(now: datetime) -> None:
    """Promises that were not kept in time; their jobs take their turn like everybody else."""
    over = Claim.unscoped.filter(expires_at__lte=now)
    cells = set(over.values_list("job__queue__cell_id", flat=True))
    if not cells:
        return
    with transaction.atomic():
        over.delete()
        for cell_id in sorted(cells):
            outbox.hint(outbox.Topic.CYCLE, cell_id)


def _settle_leaving(now: datetime) -> None:
    """Jobs whose last pod ended in a transaction that did not live to move them on."""
    leaving = Job.unscoped.filter(state__in=(JobState.EVICTING, JobState.STOPPING))
    present = Allocation.unscoped.filter(attempt__job=OuterRef("pk"), removed_at__isnull=True)
    idle = leaving.filter(~Exists(present))
    for job in idle.select_related("queue").order_by("id")[:_LIMIT]:
        try:
            with transaction.atomic():
                settle([job], now=now)
        except StaleJob:
            log.info("job moved on before the sweep", job=str(job.pk))
