"""One look at a cluster that admits by itself: its tree brought in step, its verdicts followed.

Level-triggered: what is there is read and compared with rows, so that running it twice, late or after a crash
ends in the same place. Nothing is concluded from silence; who waits then says so. Between two such looks the
cluster's watch is listened to, so that an admission or an eviction is followed when it comes.
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
"""How long after one look at what is new there is the next."""
_MESSAGE: Final = 200


@row_scope.whole()
def delegation_run(*, cluster_id: uuid.UUID) -> int:
    """Bring one cluster in step and follow it; returns how many of its jobs were looked at."""
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
    """Follow what a cluster has said since the last look; returns of how many jobs it spoke.

    It is listened to without the lease, which is taken only where there is something to follow. Where it does
    not answer, the next whole look says so.
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
    """Follow the changes; returns False if another process does so or has read further meanwhile."""
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
    """Every job that is decided there and has not ended, in the order of their arrival."""
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
    """Take the steps that jobs need: all of them, or those that it is `about`."""
    by_job = {verdict.job: verdict for verdict in verdicts}
    roles = _roles(jobs)
    flavors = _flavors(look.cluster)
    pools = {pool.id: pool for pool in engine_flavors(look.cluster.cell_id)}
    curbs = PlatformLimits(jobs, pools, look.now)
    for job in jobs:
        seen, meant = by_job.get(str(job.pk)), about is None or str(job.pk) in about
        if job.state == JobState.QUEUED:  # in their order, since what is handed over counts for the next
            wanted = workload_of(job, roles[job.pk], flavors[job.queue_id], pools, curbs)
            if meant:
                look.reconcile_queued(job, roles[job.pk], wanted, seen)
        elif meant:
            look.reconcile_unqueued(job, seen)
    known = {str(job.pk) for job in jobs}
    for verdict in verdicts:
        if verdict.job and verdict.job not in known:
            # Its job has ended, or nobody knows of one: what it holds is of use to others.
            look.delegate.delete_workload(verdict)
    for job, code, numbers in place_admitted(look.cluster, look.admitted, look.now):
        look.report_unplaced(job, code, numbers)
    _note_foreign(look.cluster, verdicts)


def _note_foreign(cluster: Cluster, verdicts: Sequence[WorkloadVerdict]) -> None:
    """Work in our queues that nobody asked for here is not touched; the ledger cannot explain its quota."""
    names = sorted(f"{seen.namespace}/{seen.name}" for seen in verdicts if not seen.job and seen.reserved)
    if names:
        log.warning("work of others holds quota", cluster=cluster.name, workloads=names)


def _roles(jobs: Sequence[Job]) -> dict[uuid.UUID, list[JobRole]]:
    found: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    for role in JobRole.unscoped.filter(job__in=[job.pk for job in jobs]).order_by("job_id", "position"):
        found[role.job_id].append(role)
    return found


def _flavors(cluster: Cluster) -> dict[uuid.UUID, list[Flavor]]:
    """The flavors of each queue in their order."""
    found: defaultdict[uuid.UUID, list[Flavor]] = defaultdict(list)
    rows = QueueFlavor.unscoped.filter(flavor__cluster=cluster).select_related("flavor")
    for row in rows.order_by("queue_id", "position"):
        found[row.queue_id].append(row.flavor)
    return found


def _note_unreachable(cluster: Cluster, jobs: Sequence[Job], message: str, now: datetime) -> None:
    """Note an unreachable cluster: pending jobs wait for an answer, running jobs keep running."""
    numbers = {"cluster": cluster.name, "unheard": message[:_MESSAGE]}
    waits = [
        Wait(job, Reason.PENDING_EVALUATION, numbers, []) for job in jobs if job.state == JobState.QUEUED
    ]
    store_waits(cluster.cell_id, [wait for wait in waits if wait.is_news], now)
