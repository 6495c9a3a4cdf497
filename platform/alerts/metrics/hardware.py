"""Metrics of GPUs, nodes and clusters."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from django.db.models import Sum

from alerts.metrics.base import Observation
from clusters.models import Cluster, ClusterHealth, Device, Node
from foundation.core.actor import SYSTEM
from telemetry.models import TelemetryGap
from telemetry.series.readings.now import CardNow, utilisation_now

_Sample = TypeVar("_Sample")


def make_gpu_reader(
    read: Callable[[CardNow, Device], float | None],
) -> Callable[[datetime], list[Observation]]:
    """Return a reader of one figure of the latest sample of each GPU; None without a recent sample."""

    def read_gpus(now: datetime) -> list[Observation]:
        latest = utilisation_now(SYSTEM)
        devices = Device.unscoped.filter(node__present=True).select_related("node").order_by("pk")
        return [observe_sample(device, latest.get(device.pk), read) for device in devices]

    return read_gpus


def observe_sample(
    device: Device, sample: _Sample | None, read: Callable[[_Sample, Device], float | None]
) -> Observation:
    """Return the observation of one figure of a GPU's recent sample; a missing figure is unsupported."""
    if sample is None:
        return observe_gpu(device, None)
    value = read(sample, device)
    return observe_gpu(device, value, is_supported=value is not None)


def observe_gpu(device: Device, value: float | None, *, is_supported: bool = True) -> Observation:
    """Return the observation of a metric of one GPU."""
    node = device.node
    return Observation(
        subject=device.uuid,
        label=f"{node.name}, GPU {device.index}",
        value=value,
        cluster_id=node.cluster_id,
        path=f"/ops/nodes/{node.name}",
        is_supported=is_supported,
    )


def read_memory_share(sample: CardNow, device: Device) -> float | None:
    """Return the used part of a GPU's memory in percent."""
    return 100 * sample.memory_used_mib / device.memory_mib if device.memory_mib else None


def read_node_utilization(now: datetime) -> list[Observation]:
    """Compute the mean utilization of the measured GPUs of each node; None without measured GPUs."""
    means = _means_by(lambda device: device.node_id)
    nodes = Node.unscoped.filter(present=True, devices__isnull=False).distinct().order_by("pk")
    return [
        Observation(
            subject=str(node.pk),
            label=node.name,
            value=means.get(node.pk),
            cluster_id=node.cluster_id,
            path=f"/ops/nodes/{node.name}",
        )
        for node in nodes
    ]


def read_cluster_utilization(now: datetime) -> list[Observation]:
    """Compute the mean utilization of the measured GPUs of each cluster; None without measured GPUs.

    A cluster without GPUs is left out.
    """
    means = _means_by(lambda device: device.node.cluster_id)
    clusters = Cluster.unscoped.filter(nodes__present=True, nodes__devices__isnull=False).distinct()
    return [observe_cluster(cluster, means.get(cluster.pk)) for cluster in clusters.order_by("pk")]


def read_cluster_allocation(now: datetime) -> list[Observation]:
    """Compute the allocated share of each cluster's GPU compute in percent, for clusters with GPUs."""
    sums = {
        row["node__cluster_id"]: (row["allocated"], row["capacity"])
        for row in Device.unscoped.filter(node__present=True)
        .order_by()
        .values("node__cluster_id")
        .annotate(allocated=Sum("cores_granted"), capacity=Sum("cores_capacity"))
    }
    found = []
    for cluster in Cluster.unscoped.filter(pk__in=sums).order_by("pk"):
        allocated, capacity = sums[cluster.pk]
        found.append(observe_cluster(cluster, 100 * allocated / capacity if capacity else None))
    return found


def observe_cluster(cluster: Cluster, value: float | None) -> Observation:
    """Return the observation of a metric of one cluster."""
    return Observation(
        subject=str(cluster.pk),
        label=cluster.name,
        value=value,
        cluster_id=cluster.pk,
        path="/ops/overview",
    )


def _means_by(key: Callable[[Device], uuid.UUID]) -> dict[uuid.UUID, float]:
    latest = utilisation_now(SYSTEM)
    found: defaultdict[uuid.UUID, list[float]] = defaultdict(list)
    for device in Device.unscoped.filter(pk__in=list(latest)).select_related("node"):
        found[key(device)].append(latest[device.pk].utilisation_percent)
    return {pk: sum(values) / len(values) for pk, values in found.items()}


def read_unready_times(now: datetime) -> list[Observation]:
    """Compute the seconds since each node stopped being ready; 0 while it is ready."""
    nodes = Node.unscoped.filter(present=True).order_by("pk")
    return [
        Observation(
            subject=str(node.pk),
            label=node.name,
            value=_seconds(now, None if node.ready else node.not_ready_since or node.observed_at),
            cluster_id=node.cluster_id,
            path=f"/ops/nodes/{node.name}",
        )
        for node in nodes
    ]


def read_unhealthy_gpus(now: datetime) -> list[Observation]:
    """Return 1 for each GPU that its cluster reports as unhealthy, 0 for the others."""
    devices = Device.unscoped.filter(node__present=True).select_related("node").order_by("pk")
    return [observe_gpu(device, 0.0 if device.healthy else 1.0) for device in devices]


def read_unreachable_times(now: datetime) -> list[Observation]:
    """Compute the seconds since each cluster stopped answering; 0 while it answers, None if it never did."""
    return [
        observe_cluster(cluster, _unreachable_s(cluster, now)) for cluster in Cluster.unscoped.order_by("pk")
    ]


def _unreachable_s(cluster: Cluster, now: datetime) -> float | None:
    """Return the seconds; None for a cluster that never answered, or that another installation manages."""
    if cluster.health in (ClusterHealth.UNKNOWN, ClusterHealth.DISOWNED):
        return None
    return _seconds(now, cluster.health_since if cluster.health == ClusterHealth.UNREACHABLE else None)


def read_sample_gaps(now: datetime) -> list[Observation]:
    """Compute the seconds since each cluster last delivered samples of its GPUs; 0 while it does."""
    gaps = dict(TelemetryGap.unscoped.filter(ended_at__isnull=True).values_list("cluster_id", "started_at"))
    return [
        observe_cluster(cluster, _seconds(now, gaps.get(cluster.pk)))
        for cluster in Cluster.unscoped.exclude(health=ClusterHealth.UNKNOWN).order_by("pk")
    ]


def _seconds(now: datetime, since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
