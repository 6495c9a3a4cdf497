"""Reconciles a cluster whose own engine admits jobs: updates its quota objects and follows its verdicts.

It is level-triggered: the cluster's workloads are read and compared with rows, so that running it twice, late
or after a crash has the same result. If the cluster doesn't answer, no job changes its state, and pending
jobs report it. Between reconciliations the cluster's watch is read, so that admissions and evictions are
followed soon.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable
from clusters.backends.delegation import Delegate, WorkloadChanges, WorkloadVerdict
from clusters.backends.registry import delegate_for
from clusters.models import ADMITS_ITSELF, Cluster, Flavor
from clusters.services.cluster_permissions import permissions_refresh_denied
from clusters.services.ownership import backend_confirmed, backend_owned
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.reasons import Reason
from foundation.messaging import leases, outbox
from foundation.sql import row_scope
from quotas.models import QueueFlavor
from scheduling.commit.reasons import Wait
from scheduling.delegation.placing import place_admitted
from scheduling.delegation.platform_limits import PlatformLimits
from scheduling.delegation.projection import projection_of
from scheduling.delegation.reconciliation import Reconciliation, store_waits
from scheduling.delegation.workloads import workload_of
from scheduling.models import TERMINAL_STATES, Job, JobRole, JobState
from scheduling.snapshots.delegated import delegated_queues
from scheduling.snapshots.inventory import engine_flavors

log = structlog.get_logger(__name__)
_RETRY_S: Final = 0.3
_LISTEN_S: Final = 0.4
"""The time between two readings of the cluster's changes, in seconds."""
_MESSAGE: Final = 200


@row_scope.whole()
def delegation_run(*, cluster_id: uuid.UUID) -> int:
    """Reconcile one cluster; return how many unfinished jobs it has."""
    with leases.hold_lease(Cluster, cluster_id) as epoch:
        if epoch is None:
            outbox.add_hint(outbox.Topic.DELEGATE, cluster_id, delay_s=_RETRY_S)
            return 0
        cluster = Cluster.unscoped.filter(pk=cluster_id, backend__in=ADMITS_ITSELF).first()
        if cluster is None:
            return 0
        jobs, now = _jobs(cluster), clock.now()
        try:
            backend_owned(cluster)
            delegate = delegate_for(cluster)
            _project(cluster, delegate)
            verdicts = delegate.list_verdicts()
            look = Reconciliation(cluster, delegate, now)
            _follow(look, jobs, verdicts.seen)
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))
            _note_unreachable(cluster, jobs, str(error), now)
            permissions_refresh_denied(cluster=cluster, error=error)
            return 0
        store_waits(cluster.cell_id, look.waits, now)
        Cluster.unscoped.filter(pk=cluster_id).update(delegate_cursor=verdicts.cursor)
    if look.unknown:
        outbox.add_hint(outbox.Topic.DELEGATE, cluster_id, delay_s=_RETRY_S)
    if jobs:
        outbox.add_hint(outbox.Topic.LISTEN, cluster_id, delay_s=_LISTEN_S)
    return len(jobs)


@row_scope.whole()
def delegation_listen(*, cluster_id: uuid.UUID) -> int:
    """Follow the changes of a cluster since the last reading; return the number of jobs that they concern.

    The changes are read without the lease, which is taken only if there are any. If the cluster doesn't
    answer, the next full reconciliation reports it.
    """
    cluster = Cluster.unscoped.filter(pk=cluster_id, backend__in=ADMITS_ITSELF).first()
    if cluster is None or not cluster.delegate_cursor:
        return 0
    try:
        backend_confirmed(cluster)
        delegate = delegate_for(cluster)
        news = delegate.list_changes(cluster.delegate_cursor)
    except BackendUnavailable as error:
        log.info("cluster was not heard", cluster=cluster.name, error=str(error))
        return 0
    if news is None:
        outbox.add_hint(outbox.Topic.DELEGATE, cluster_id)
        return 0
    about = news.removed.union(seen.job for seen in news.seen)
    if about and not _follow_changes(cluster, delegate, news, about):
        outbox.add_hint(outbox.Topic.LISTEN, cluster_id, delay_s=_RETRY_S)
        return 0
    if _live(cluster).exists():
        outbox.add_hint(outbox.Topic.LISTEN, cluster_id, delay_s=_LISTEN_S)
    return len(about)


def _follow_changes(
    cluster: Cluster, delegate: Delegate, news: WorkloadChanges, about: frozenset[str]
) -> bool:
    """Follow the changes; return False if another process does so, or has read later ones meanwhile."""
    with leases.hold_lease(Cluster, cluster.pk) as epoch:
        if epoch is None:
            return False
        unread = Cluster.unscoped.filter(pk=cluster.pk, delegate_cursor=cluster.delegate_cursor)
        if not unread.exists():
            return False
        look = Reconciliation(cluster, delegate, clock.now())
        try:
            _follow(look, _jobs(cluster), news.seen, about)
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))
            return False
        store_waits(cluster.cell_id, look.waits, look.now)
        unread.update(delegate_cursor=news.cursor)
    if look.unknown:
        outbox.add_hint(outbox.Topic.DELEGATE, cluster.pk, delay_s=_RETRY_S)
    return True


def _jobs(cluster: Cluster) -> list[Job]:
    """Return the unfinished jobs that the cluster's engine decides, in the order of submission."""
    return list(_live(cluster).select_related("queue", "workspace").order_by("submitted_at", "pk"))


def _live(cluster: Cluster) -> QuerySet[Job]:
    queues = list(delegated_queues({cluster.pk}))
    return Job.unscoped.filter(queue__in=queues).exclude(state__in=TERMINAL_STATES)


def _project(cluster: Cluster, delegate: Delegate) -> None:
    done = delegate.apply_projection(projection_of(cluster))
    for name, message in done.refused.items():
        log.warning("cluster is out of step", cluster=cluster.name, object=name, why=message)
    if done.created or done.repaired or done.removed:
        after = {"created": done.created, "repaired": done.repaired, "removed": done.removed}
        with transaction.atomic():
            audit_log.record_action(
                SYSTEM, "cluster.project", entity="cluster", entity_id=cluster.pk, after=after
            )


def _follow(
    look: Reconciliation,
    jobs: Sequence[Job],
    verdicts: Sequence[WorkloadVerdict],
    about: Container[str] | None = None,
) -> None:
    """Take the steps that jobs need: all jobs, or those whose ids are in `about`."""
    by_job = {verdict.job: verdict for verdict in verdicts}
    roles = _roles(jobs)
    flavors = _flavors(look.cluster)
    pools = {pool.id: pool for pool in engine_flavors(look.cluster.cell_id)}
    curbs = PlatformLimits(jobs, pools, look.now)
    for job in jobs:
        seen, meant = by_job.get(str(job.pk)), about is None or str(job.pk) in about
        if job.state == JobState.QUEUED:  # all in their order: each counts towards the limits of the next
            wanted = workload_of(job, roles[job.pk], flavors[job.queue_id], pools, curbs)
            if meant:
                look.reconcile_queued(job, roles[job.pk], wanted, seen)
        elif meant:
            look.reconcile_unqueued(job, seen)
    known = {str(job.pk) for job in jobs}
    for verdict in verdicts:
        if verdict.job and verdict.job not in known:
            # Its job has ended or is unknown; other jobs can use the quota that it holds.
            look.delegate.delete_workload(verdict)
    for job, code, numbers in place_admitted(look.cluster, look.admitted, look.now):
        look.report_unplaced(job, code, numbers)
    _note_foreign(look.cluster, verdicts)


def _note_foreign(cluster: Cluster, verdicts: Sequence[WorkloadVerdict]) -> None:
    """Warn of foreign workloads that hold quota in the platform's queues. They are not changed."""
    names = sorted(f"{seen.namespace}/{seen.name}" for seen in verdicts if not seen.job and seen.reserved)
    if names:
        log.warning("work of others holds quota", cluster=cluster.name, workloads=names)


def _roles(jobs: Sequence[Job]) -> dict[uuid.UUID, list[JobRole]]:
    found: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    for role in JobRole.unscoped.filter(job__in=[job.pk for job in jobs]).order_by("job_id", "position"):
        found[role.job_id].append(role)
    return found


def _flavors(cluster: Cluster) -> dict[uuid.UUID, list[Flavor]]:
    """Return the flavors of each queue in their order."""
    found: defaultdict[uuid.UUID, list[Flavor]] = defaultdict(list)
    rows = QueueFlavor.unscoped.filter(flavor__cluster=cluster).select_related("flavor")
    for row in rows.order_by("queue_id", "position"):
        found[row.queue_id].append(row.flavor)
    return found


def _note_unreachable(cluster: Cluster, jobs: Sequence[Job], message: str, now: datetime) -> None:
    """Record that the cluster is unreachable as the reason of its pending jobs; running jobs keep running."""
    numbers = {"cluster": cluster.name, "scheduler_error": message[:_MESSAGE]}
    waits = [
        Wait(job, Reason.PENDING_EVALUATION, numbers, []) for job in jobs if job.state == JobState.QUEUED
    ]
    store_waits(cluster.cell_id, [wait for wait in waits if wait.is_news], now)
