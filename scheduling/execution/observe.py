"""Applies the observations of a cluster to tasks and jobs.

Observations come at least once and in any order, so each is applied as a level, never as a step: a pod
observed as running after it was observed as finished changes nothing. Quota is released in the transaction
that records the end of its pod.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from clusters.backends.base import (
    HOLD,
    BackendUnavailable,
    ClusterBackend,
    Inventory,
    NodeObservation,
    ObservedBatch,
    PodObservation,
    PodPhase,
    TaskRef,
)
from clusters.models import Cluster, ClusterHealth
from clusters.selectors.cluster import cluster_by_key
from clusters.services.cluster_permissions import permissions_refresh, permissions_refresh_denied
from clusters.services.foreign import foreign_apply
from clusters.services.inventory import inventory_sync, nodes_observe
from clusters.services.ownership import backend_owned, is_read_current, nodes_open
from foundation.core import clock, faults
from foundation.messaging import leases, outbox
from foundation.sql.prepared import PreparedUpdate
from scheduling.execution import adoption, holders, pod_events
from scheduling.execution.cluster_health import health_check, health_note
from scheduling.execution.execute import RETRY_S
from scheduling.execution.progress import pods_apply
from scheduling.execution.removed_pods import record_removed_pods
from scheduling.execution.volumes.claims import read_mounted_claims
from scheduling.models import Allocation, Attempt, TaskState
from scheduling.monitoring import counters

log = structlog.get_logger(__name__)
# On SQLite each transaction holds the only write lock, for which submissions wait, so chunks are small. On
# PostgreSQL only rows are locked, and larger chunks save transactions; but several chunks release the first
# quota earlier.
_CHUNK: Final = 50
_CHUNK_ON_POSTGRESQL: Final = (15, 250)
_NAMES: Final = 500
_LIST_EVERY: Final = timedelta(seconds=20)
_LIST_OTHERS_EVERY: Final = timedelta(minutes=5)
_OF_MISSING: Final = (*("id", "namespace", "pod_name", "pod_uid", "ensured_at", "released_at"),)


def _held(pk: uuid.UUID, epoch: int, cursor: str, now: datetime) -> QuerySet[Cluster]:
    return Cluster.unscoped.filter(pk=pk, epoch=epoch)


def _seen(pk: uuid.UUID, epoch: int, cursor: str, now: datetime) -> dict[str, Any]:
    return {"cursor": cursor, "observed_at": now}


_FOLLOWED: Final = PreparedUpdate(_held, _seen)
_LISTED: Final = PreparedUpdate(
    _held, lambda pk, epoch, cursor, now: {**_seen(pk, epoch, cursor, now), "listed_at": now}
)


def observe_cluster(*, cluster_id: uuid.UUID) -> int:
    """Read what changed in one cluster and apply it; return the number of observations."""
    # Execution takes the same lease, so that no list is read while pods are created.
    with leases.hold_lease(Cluster, cluster_id) as epoch:
        cluster = cluster_by_key(cluster_id)
        if epoch is None:
            # Execution may be waiting for an unreachable cluster, so the health is checked independently.
            health_check(cluster)
            outbox.put_off(outbox.Topic.OBSERVE, cluster_id, delay_s=RETRY_S)
            return 0
        if cluster.epoch != epoch or not health_check(cluster):
            return 0  # another process has the lease, or the cluster does not answer
        faults.fault_point("observe.leased")
        try:
            backend = backend_owned(cluster)
            now = clock.now()
            listing = cluster.listed_at is None or not cluster.cursor or now - cluster.listed_at > _LIST_EVERY
            everything = not cluster.cursor or _others_are_old(cluster, now)
            with counters.EXECUTION.time_block(cluster=cluster.name, step="observe"):
                batch = backend.observe_pods(
                    None if listing and everything else cluster.cursor, whole=listing
                )
        except BackendUnavailable as error:
            health_note(cluster, ClusterHealth.UNREACHABLE, str(error))
            permissions_refresh_denied(cluster=cluster, error=error)
            return 0
        health_note(cluster, ClusterHealth.HEALTHY, "")
        read_at = clock.now()
        faults.fault_point("observe.before_apply")
        _apply(cluster, backend, batch, now)
        _remove_strays(cluster, backend, batch)
        if batch.again_s is not None and batch.again_s < settings.ALLOTMENT_OBSERVE_EVERY_S:
            took_s = (clock.now() - read_at).total_seconds()
            outbox.add_hint(outbox.Topic.OBSERVE, cluster_id, delay_s=max(0.0, batch.again_s - took_s))
    outbox.hasten_hint(outbox.Topic.EXECUTE, cluster_id)  # an execution due meanwhile was postponed
    pod_events.note_events(cluster, backend)
    read_mounted_claims(cluster, backend)
    permissions_refresh(cluster=cluster, backend=backend)
    return len(batch.observations)


def _others_are_old(cluster: Cluster, now: datetime) -> bool:
    """Return whether the foreign pods must be listed again; between lists their changes are followed."""
    return cluster.foreign_listed_at is None or now - cluster.foreign_listed_at > _LIST_OTHERS_EVERY


def _apply(cluster: Cluster, backend: ClusterBackend, batch: ObservedBatch, now: datetime) -> None:
    nodes = [item for item in batch.observations if isinstance(item, NodeObservation)]
    pods = [item for item in batch.observations if isinstance(item, PodObservation)]
    if batch.complete:  # nodes that the list lacks no longer exist
        inventory_sync(cluster=cluster, inventory=Inventory(tuple(seen.fact for seen in nodes if seen.fact)))
    elif nodes:
        nodes_observe(cluster=cluster, observations=nodes)
    unknown = _unknown_attempts(cluster, backend, batch, pods, now)
    _apply_pods(cluster, _news(cluster, pods) if batch.complete else pods, now)
    if batch.complete:
        _absent(cluster, backend, pods, now)
    adoption.adopt_all(cluster, backend, unknown, now=now)
    _count_others(cluster, batch)
    owned = backend.capabilities.owned
    look_again = not batch.complete and owned and adoption.has_unknown(cluster, pods)
    listed = batch.complete or cluster.listed_at is not None
    if cluster.opens_at is not None and cluster.opens_at <= now and listed and is_read_current(cluster):
        nodes_open(cluster)
    faults.fault_point("observe.before_cursor")
    # The cursor is written last: after a crash before this line the same changes are read again. It is not
    # written if another process has the lease, because unapplied changes would be skipped.
    (_LISTED if batch.complete else _FOLLOWED)(cluster.pk, cluster.epoch, batch.cursor, now)
    if look_again:  # without `listed_at` the next observation lists all pods, and none is created before it
        Cluster.unscoped.filter(pk=cluster.pk).update(listed_at=None)
        outbox.add_hint(outbox.Topic.OBSERVE, cluster.pk)


def _unknown_attempts(
    cluster: Cluster,
    backend: ClusterBackend,
    batch: ObservedBatch,
    pods: Sequence[PodObservation],
    now: datetime,
) -> list[adoption.UnknownAttempt]:
    """Return the attempts that a list of all pods has and this database doesn't; their jobs are paused."""
    if not (batch.complete and backend.capabilities.owned):
        return []
    if batch.bound.complete:  # pods to adopt must be counted as foreign first
        _count_others(cluster, batch)
    unknown = adoption.find_unknown(cluster, pods)
    adoption.hold_back(cluster, unknown, now=now)
    return unknown


def _count_others(cluster: Cluster, batch: ObservedBatch) -> None:
    foreign_apply(cluster=cluster, bound=batch.bound, find_own=holders.find_own_pods)


def _news(cluster: Cluster, pods: Sequence[PodObservation]) -> list[PodObservation]:
    """Return the observations without running pods that are known to run: these are most of a list, and
    applying them would change nothing.
    """
    running = [seen.ref.name for seen in pods if seen.phase is PodPhase.RUNNING]
    here = Allocation.unscoped.filter(node__cluster=cluster, removed_at__isnull=True, restarting=False)
    known: set[tuple[str, str]] = set()
    for start in range(0, len(running), _NAMES):
        named = here.filter(task__state=TaskState.RUNNING, pod_name__in=running[start : start + _NAMES])
        known.update(named.values_list("namespace", "pod_name"))
    return [
        seen
        for seen in pods
        if seen.phase is not PodPhase.RUNNING or (seen.ref.namespace, seen.ref.name) not in known
    ]


def _absent(cluster: Cluster, backend: ClusterBackend, pods: Sequence[PodObservation], now: datetime) -> None:
    """Record the pods that a complete list lacks as removed, if they were created before the list was read.

    A pod whose allocation isn't released is first read by name, because a list may lack an existing pod.
    """
    seen = {(pod.ref.namespace, pod.ref.name) for pod in pods}
    expected = Allocation.unscoped.filter(node__cluster=cluster, removed_at__isnull=True)
    settled = expected.filter(ensured_at__lt=now) | expected.filter(removal_sent_at__lt=now)
    missing = [
        allocation
        for allocation in settled.only(*_OF_MISSING).order_by("id")
        if (allocation.namespace, allocation.pod_name) not in seen
    ]
    holding = [allocation for allocation in missing if allocation.released_at is None]
    hidden = _still_there(cluster, backend, holding)
    _apply_pods(cluster, [_removed(one, now) for one in missing if one.pk not in hidden], now)


def _still_there(cluster: Cluster, backend: ClusterBackend, holding: Sequence[Allocation]) -> set[uuid.UUID]:
    """Return the keys of allocations whose pod exists or may exist."""
    refs = [TaskRef(one.namespace, one.pod_name, one.known_uid, str(one.pk)) for one in holding]
    try:
        there = backend.pods_exist(refs)
    except BackendUnavailable as error:
        log.warning("cluster did not answer", cluster=cluster.name, error=str(error))
        return {one.pk for one in holding}
    hidden = {one.pk for one, found in zip(holding, there, strict=True) if found}
    if hidden:
        log.warning("pods that a list lacked are there", cluster=cluster.name, pods=len(hidden))
    return hidden


def _apply_pods(cluster: Cluster, observations: Sequence[PodObservation], now: datetime) -> None:
    for some in _chunks(record_removed_pods(cluster=cluster, observations=observations, now=now)):
        pods_apply(cluster=cluster, observations=some, now=now)
        faults.fault_point("observe.after_chunk")


def _chunks(observations: Sequence[PodObservation]) -> Iterator[Sequence[PodObservation]]:
    size = _CHUNK
    if connection.vendor == "postgresql":
        least, most = _CHUNK_ON_POSTGRESQL
        size = min(max(-(-len(observations) // 2), least), most)
    return (observations[start : start + size] for start in range(0, len(observations), size))


def _remove_strays(cluster: Cluster, backend: ClusterBackend, batch: ObservedBatch) -> None:
    """Remove pods that a worker created after its lease and after the release of their allocation.

    Only the observed pod is removed, and only if its name belongs to a removed allocation. A pod with the
    label of another allocation was created by an attempt that this database has lost, and is not removed.
    """
    pods = [seen for seen in batch.observations if isinstance(seen, PodObservation)]
    there = {(seen.ref.namespace, seen.ref.name): seen for seen in pods if seen.phase is not PodPhase.REMOVED}
    names = sorted({name for _, name in there})
    strays: list[TaskRef] = []
    late: set[uuid.UUID] = set()
    for start in range(0, len(names), _NAMES):
        ended = Allocation.unscoped.filter(
            node__cluster=cluster, removed_at__isnull=False, pod_name__in=names[start : start + _NAMES]
        )
        rows = ended.order_by("id").values_list("namespace", "pod_name", "attempt_id", "pk")
        for namespace, name, attempt, hold in rows:
            seen = there.get((namespace, name))
            if seen is not None and seen.labels.get(HOLD, str(hold)) == str(hold):
                strays.append(seen.ref)
                late.add(attempt)
    if not strays:
        return
    log.warning("pods without a hold are removed", cluster=cluster.name, pods=[ref.name for ref in strays])
    if backend.capabilities.gangs:  # the worker that created the pod has also created its gang's object again
        Attempt.unscoped.filter(pk__in=late).update(gathered_at=clock.now())
    try:
        backend.remove_many(strays, 0)
    except BackendUnavailable as error:
        log.warning("cluster did not answer", cluster=cluster.name, error=str(error))


def _removed(allocation: Allocation, now: datetime) -> PodObservation:
    from_list = "absent from a complete list"
    ref = TaskRef(allocation.namespace, allocation.pod_name, allocation.known_uid)
    return PodObservation(ref, PodPhase.REMOVED, now, message=from_list)
