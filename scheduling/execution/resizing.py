"""Executes changes of GPU memory: the cluster is asked until the outcome of each change is known."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.db.models import QuerySet

from clusters.backends.base import ClusterBackend, DeviceGrant, OutcomeKind, TaskRef
from clusters.models import Cluster
from foundation.core import clock, faults
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery
from scheduling.models import DeviceSlice, MemoryResize, ResizeState
from scheduling.services.resizing.resize_settle import resize_settle

_BATCH: Final = 50
_ASK_AGAIN_S: Final = 1.0


def _open(cluster: uuid.UUID) -> QuerySet[MemoryResize]:
    """Return the open changes for pods that exist. A pod that is created again starts with the wanted memory,
    and its change is checked once it exists.
    """
    return (
        MemoryResize.unscoped.filter(
            ended_at__isnull=True,
            allocation__node__cluster=cluster,
            allocation__ensured_at__isnull=False,
            allocation__removal_asked_at__isnull=True,
            allocation__released_at__isnull=True,
        )
        .select_related("allocation")
        .order_by("id")[:_BATCH]
    )


_OPEN: Final[PreparedQuery[Any]] = PreparedQuery(_open)


def apply_resizes(cluster: Cluster, backend: ClusterBackend) -> int:
    """Request every open change from the cluster; return how many have ended."""
    waiting = _OPEN(cluster.pk)
    over = sum(_one(backend, item) for item in waiting)
    if over < len(waiting):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk, delay_s=_ASK_AGAIN_S)
    return over


def _one(backend: ClusterBackend, item: MemoryResize) -> bool:
    allocation = item.allocation
    parts = DeviceSlice.unscoped.filter(allocation=allocation).order_by("device__index", "pk")
    grants = [
        DeviceGrant(card, cores, item.wanted_mib)
        for card, cores in parts.values_list("device__uuid", "cores")
    ]
    faults.fault_point("execute.before_resize")
    outcome = backend.resize_devices(
        TaskRef(allocation.namespace, allocation.pod_name, allocation.known_uid), grants
    )
    faults.fault_point("execute.after_resize")
    if outcome.kind is OutcomeKind.UNKNOWN:
        return False
    state = ResizeState(item.state)
    return resize_settle(resize_id=item.pk, asked=state, outcome=outcome, now=clock.now())
