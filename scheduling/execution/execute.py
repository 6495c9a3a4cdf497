"""Executes decisions: creates the pods that should exist and removes the pods that should not.

It is level-triggered: it reads rows, not messages, so that running it twice, late, or only by the sweep has
the same result. The cluster is called outside of transactions; each answer is written by compare-and-set.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet

from clusters.backends.base import (
    GRACE_S,
    BackendUnavailable,
    ClusterBackend,
    OutcomeKind,
    PodOutcome,
    TaskRef,
)
from clusters.models import Cluster
from clusters.selectors.cluster import cluster_by_key
from clusters.services.cluster_permissions import permissions_refresh_denied
from clusters.services.node_cordon import apply_cordons
from clusters.services.ownership import backend_owned
from foundation.core import clock, faults
from foundation.messaging import leases, outbox
from foundation.sql.bulk import Guard, locking_in_order, update_rows
from foundation.sql.prepared import PreparedQuery, PreparedUpdate
from scheduling.execution import creation, gangs, resizing
from scheduling.execution.task_specs import task_specs
from scheduling.lifecycle.journal import JournalPod, log_pods
from scheduling.models import Allocation
from scheduling.monitoring import counters

log = structlog.get_logger(__name__)
# Writing the answers of a batch takes as long for few as for many, and no pod is created meanwhile.
_BATCH: Final = 1000
_ASK_AGAIN: Final = timedelta(seconds=30)
RETRY_S: Final = 0.3
"""The delay after which work is tried again that found the cluster's lease taken, in seconds."""
# No pod starts or ends sooner, and one observation then sees the results of many requests.
_SEEN_S: Final = 0.1
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


def _wanted(cluster: uuid.UUID, now: datetime) -> QuerySet[Allocation]:
    """Return the allocations whose pods are to be created, without those that are tried again later."""
    return (
        Allocation.unscoped.filter(
            Q(ensure_after__isnull=True) | Q(ensure_after__lte=now),
            node__cluster=cluster,
            ensured_at__isnull=True,
            removal_asked_at__isnull=True,
            released_at__isnull=True,
        )
        .select_related("task__role", "attempt__job", "node", "flavor")
        .defer(
            "charge",
            "attempt__borrowed",
            "task__role__gpu_models",
            *(f"attempt__job__{name}" for name in ("lifecycle", "reason_numbers", "reason_help")),
            *(f"node__{name}" for name in ("labels", "taints", "pressure")),
        )
        .order_by("id")[:_BATCH]
    )


def _unwanted(cluster: uuid.UUID, sent_before: datetime) -> QuerySet[Allocation]:
    """Return the allocations whose pods are to be removed, with their grace periods in seconds; allocations
    that are not released come first, because other jobs wait for them.
    """
    unsent = Q(removal_sent_at__isnull=True) | Q(removal_sent_at__lt=sent_before)
    return (
        Allocation.unscoped.filter(
            unsent, node__cluster=cluster, removal_asked_at__isnull=False, removed_at__isnull=True
        )
        .annotate(grace=F("attempt__job__runtime__termination_grace_s"))
        .select_related("node")
        .only(
            "namespace",
            "pod_name",
            "pod_uid",
            "ensured_at",
            "released_at",
            "node__present",
            "node__taints",
        )
        .order_by(F("released_at").asc(nulls_first=True), "id")[:_BATCH]
    )


_LOCKED: Final = PreparedQuery(
    lambda keys: locking_in_order(Allocation.unscoped.filter(pk__any_of=keys)).values_list("pk")
)
_SENT: Final = PreparedUpdate(
    lambda keys, now: Allocation.unscoped.filter(pk__any_of=keys), lambda keys, now: {"removal_sent_at": now}
)
_WANTED: Final = PreparedQuery(_wanted)
_UNWANTED: Final[PreparedQuery[Any]] = PreparedQuery(_unwanted)


def execute_cluster(*, cluster_id: uuid.UUID) -> int:
    """Create and remove pods of one cluster as its rows say; return how many calls were answered."""
    with leases.hold_lease(Cluster, cluster_id) as epoch:
        if epoch is None:
            outbox.put_off(outbox.Topic.EXECUTE, cluster_id, delay_s=RETRY_S)
            return 0
        cluster = cluster_by_key(cluster_id)
        faults.fault_point("execute.leased")
        try:
            backend = backend_owned(cluster)
            cordoned = apply_cordons(cluster=cluster, backend=backend)
            now = clock.now()
            unwanted = _UNWANTED(cluster.pk, now - _ASK_AGAIN)
            answered = cordoned + _remove(
                cluster, backend, [one for one in unwanted if not one.released_at], now
            )
            # Until the cluster's pods were listed, the cards of foreign pods are unknown.
            listed = cluster.listed_at is not None and cluster.opens_at is None
            if listed or not backend.capabilities.owned:
                answered += _ensure(cluster, backend)
            # Pods that have ended hold nothing, so they are removed last.
            answered += _remove(cluster, backend, [one for one in unwanted if one.released_at], now)
            if backend.capabilities.resize:
                resizing.apply_resizes(cluster, backend)
            if backend.capabilities.gangs:
                answered += gangs.remove_finished_gangs(cluster, backend)
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))
            permissions_refresh_denied(cluster=cluster, error=error)
            return 0
    # An observation that was due meanwhile found the lease taken and was postponed.
    outbox.hasten_hint(outbox.Topic.OBSERVE, cluster_id)
    if answered:
        outbox.add_hint(outbox.Topic.OBSERVE, cluster_id, delay_s=_SEEN_S)
    return answered


def _ensure(cluster: Cluster, backend: ClusterBackend) -> int:
    answered = 0
    began = clock.now()
    while wanted := _WANTED(cluster.pk, began):
        specs = task_specs(wanted)
        if creation.send_back_crowded(wanted, specs):
            break  # the next execution creates the others, without pods of the evicted gangs
        if backend.capabilities.gangs:
            gangs.note_gathered(zip(wanted, specs, strict=True))
        faults.fault_point("execute.before_ensure")
        with counters.EXECUTION.time_block(cluster=cluster.name, step="ensure"):
            outcomes = backend.ensure_many(specs)
        faults.fault_point("execute.after_ensure")
        pairs = list(zip(wanted, outcomes, strict=True))
        known = [pair for pair in pairs if pair[1].kind is not OutcomeKind.UNKNOWN]
        _note_ensured(known)
        unknown = [pair for pair in pairs if pair[1].kind is OutcomeKind.UNKNOWN]
        put_off = creation.note_unknown(cluster, unknown)
        faults.fault_point("execute.after_note")
        answered += len(known)
        if len(known) + put_off < len(wanted):
            break  # the cluster does not answer: a later execution creates them, under the same names
    return answered


def _note_ensured(known: list[tuple[Allocation, PodOutcome]]) -> None:
    now = clock.now()
    with transaction.atomic():
        _LOCKED.for_any([allocation.pk for allocation, _ in known])
        noted = [(allocation.pk, now, outcome.uid) for allocation, outcome in known]
        new = Guard(where={"ensured_at": None})
        update_rows(Allocation, ("ensured_at", "pod_uid"), noted, guard=new)
    made = [allocation for allocation, outcome in known if outcome.kind is OutcomeKind.DONE]
    log_pods("created and bound", map(_pod, made))
    for allocation, outcome in known:
        if outcome.kind is OutcomeKind.REFUSED:
            log_pods("refused", [_pod(allocation)], cause=outcome.code)
            creation.send_back(allocation, outcome, now)


def _pod(allocation: Allocation) -> JournalPod:
    where = allocation.node.name
    return JournalPod(allocation.attempt.job_id, allocation.namespace, allocation.pod_name, where)


def _remove(cluster: Cluster, backend: ClusterBackend, unwanted: Sequence[Any], now: datetime) -> int:
    """Remove the pods of `unwanted`, rows of `_UNWANTED`; return how many removals the cluster accepted."""
    if not unwanted:
        return 0
    faults.fault_point("execute.before_remove")
    by_grace: defaultdict[int, list[Allocation]] = defaultdict(list)
    for allocation in unwanted:
        asked_s = GRACE_S if allocation.grace is None else int(allocation.grace)
        by_grace[0 if _is_given_up(allocation) else asked_s].append(allocation)
    with counters.EXECUTION.time_block(cluster=cluster.name, step="remove"):
        done = [pk for grace_s, some in sorted(by_grace.items()) for pk in _removed(backend, some, grace_s)]
    faults.fault_point("execute.after_remove")
    with transaction.atomic():
        _LOCKED.for_any(done)
        _SENT(done, now)
    return len(done)


def _is_given_up(allocation: Allocation) -> bool:
    """Return whether the cluster's administrators have declared that nothing runs on the node any more.

    They do so by removing the node object or by the taint `out-of-service`. Then no kubelet will confirm the
    end of a pod, and its object is removed without a grace period. A node that is not ready is not enough.
    """
    node = allocation.node
    return not node.present or any(taint["key"] == _OUT_OF_SERVICE for taint in node.taints)


def _removed(backend: ClusterBackend, unwanted: Sequence[Allocation], grace_s: int) -> list[uuid.UUID]:
    refs = [TaskRef(a.namespace, a.pod_name, a.known_uid, str(a.pk)) for a in unwanted]
    outcomes = backend.remove_many(refs, grace_s)
    return [a.pk for a, outcome in zip(unwanted, outcomes, strict=True) if outcome.kind is OutcomeKind.DONE]
