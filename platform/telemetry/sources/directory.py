"""The rows of a cluster to which readings are joined."""

from __future__ import annotations

import uuid

from clusters.gpu.named import is_named_by_node
from clusters.models import Device
from scheduling.models import Allocation, DeviceSlice
from scheduling.models.job import TaskState
from telemetry.sources.merge import Directory, PodHold
from telemetry.store.times import to_ms


def load_directory(cluster_id: uuid.UUID) -> Directory:
    """Read GPUs, pods and holds of one cluster, in three queries."""
    devices = Device.unscoped.filter(node__cluster_id=cluster_id, node__present=True)
    live = Allocation.unscoped.filter(node__cluster_id=cluster_id, released_at__isnull=True)
    pods = live.values_list("namespace", "pod_name", "pod_uid", "ensured_at")
    nodes, counting = {}, set()
    for card, gpu, node in devices.values_list("uuid", "hardware_uuid", "node__name"):
        nodes[gpu or card] = node
        if is_named_by_node(card):
            counting.add(node)
    return Directory(
        nodes,
        _load_holds(cluster_id),
        {(namespace, name): uid if ensured else "" for namespace, name, uid, ensured in pods},
        frozenset(counting),
    )


def _load_holds(cluster_id: uuid.UUID) -> tuple[PodHold, ...]:
    rows = DeviceSlice.unscoped.filter(
        released=False,
        allocation__node__cluster_id=cluster_id,
        allocation__released_at__isnull=True,
        allocation__ensured_at__isnull=False,
        allocation__task__state=TaskState.RUNNING,
    ).values_list(
        "device__uuid",
        "allocation__namespace",
        "allocation__pod_name",
        "allocation__pod_uid",
        "allocation__task__started_at",
        "exclusive",
    )
    return tuple(
        PodHold(device, namespace, pod, uid, to_ms(started), not exclusive)
        for device, namespace, pod, uid, started, exclusive in rows
        if started is not None
    )
