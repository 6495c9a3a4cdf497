"""The reports of node agents: facts, events and processes of GPUs."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, QuerySet

from clusters.gpu.batches import EventKind
from clusters.models import Device
from foundation.core import clock
from foundation.core.actor import Actor
from telemetry.models import AgentKey, GpuEvent, GpuProcess, NodeAgent, Reading, Scope
from telemetry.series.readings.sight import job_tenants
from telemetry.store.times import to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission


def node_agents(viewer: Actor) -> QuerySet[NodeAgent]:
    """Return agents with their nodes and clusters. Raises: PermissionDenied without `cluster.view`."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return NodeAgent.unscoped.select_related("node__cluster").order_by("node__cluster__name", "node__name")


def agent_keys(viewer: Actor) -> QuerySet[AgentKey]:
    """Return the keys of agents, newest first. Raises: PermissionDenied without `cluster.edit`."""
    permissions.require_permission(viewer, Permission.CLUSTER_EDIT)
    return AgentKey.unscoped.select_related("node__cluster").order_by("-created_at", "-id")


def gpu_events(
    viewer: Actor, *, node_id: uuid.UUID | None = None, device_uuid: str | None = None, since_ms: int = 0
) -> QuerySet[GpuEvent]:
    """Return the events of all GPUs, of one node or of one GPU, newest first.

    An event of a whole node is one of each GPU. Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = GpuEvent.unscoped.filter(at_ms__gte=since_ms)
    if node_id is not None:
        rows = rows.filter(node_id=node_id)
    if device_uuid is not None:
        rows = rows.filter(device_uuid__in=[device_uuid, ""])
    return rows.order_by("-at_ms", "-id")


class AgentVersions(NamedTuple):
    """Driver and CUDA of a node as its agent reported them last, and when the agent was last seen."""

    driver: str
    cuda: str
    seen_at: datetime


def node_versions(viewer: Actor, node_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, AgentVersions]:
    """Return the versions of the nodes with an agent. Raises: PermissionDenied without `cluster.view`."""
    rows = node_agents(viewer).filter(node__in=node_ids).order_by()
    columns = rows.values_list("node", *AgentVersions._fields)
    return {node: AgentVersions(*values) for node, *values in columns}


def count_xids(
    viewer: Actor, *, node_ids: Collection[uuid.UUID], since: datetime
) -> dict[uuid.UUID, Counter[str]]:
    """Count the XID errors of nodes by the driver's UUID of the GPU; nodes without errors are absent.

    Raises: PermissionDenied without `cluster.view`.
    """
    rows = gpu_events(viewer, since_ms=to_ms(since)).filter(node_id__in=node_ids, kind=EventKind.XID)
    found: dict[uuid.UUID, Counter[str]] = {}
    for node, device, count in (
        rows.order_by().values_list("node_id", "device_uuid").annotate(count=Count("pk"))
    ):
        found.setdefault(node, Counter())[device] = count
    return found


def gpu_processes(
    viewer: Actor, *, node_id: uuid.UUID | None = None, job_id: uuid.UUID | None = None, since_ms: int = 0
) -> QuerySet[GpuProcess]:
    """Return processes seen on GPUs since a moment, the last seen first: all with the permission to view
    clusters, otherwise those of jobs that the viewer may see."""
    rows = GpuProcess.unscoped.filter(last_seen_ms__gte=since_ms)
    if not permissions.has_permission(viewer, Permission.CLUSTER_VIEW):
        rows = rows.filter(workspace_id__in=job_tenants(viewer).values("pk"))
    if node_id is not None:
        rows = rows.filter(node_id=node_id)
    if job_id is not None:
        rows = rows.filter(job_id=job_id)
    return rows.order_by("-last_seen_ms", "id")


def has_fresh_agent(viewer: Actor, *, cluster_id: uuid.UUID | None = None) -> bool:
    """Return whether the agent of any node reported in the last two minutes.

    Raises: PermissionDenied without `cluster.view`.
    """
    agents = node_agents(viewer).filter(seen_at__gte=clock.now() - timedelta(minutes=2))
    return (agents if cluster_id is None else agents.filter(node__cluster=cluster_id)).exists()


@dataclass(frozen=True, slots=True)
class StrayProcess:
    """A process that belongs to no allocation, and its last measured use of the GPU; None for unmeasured."""

    process: GpuProcess
    device: Device
    utilization_percent: float | None
    memory_used_mib: int | None


def stray_processes(
    viewer: Actor, *, cluster_id: uuid.UUID | None = None, within: timedelta = timedelta(minutes=10)
) -> list[StrayProcess]:
    """Return processes without an allocation that were seen lately, the last seen first.

    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    since_ms = to_ms(clock.now() - within)
    rows = gpu_processes(viewer, since_ms=since_ms).filter(allocation_id__isnull=True)
    if cluster_id is not None:
        rows = rows.filter(cluster_id=cluster_id)
    processes = list(rows)
    devices = Device.unscoped.select_related("node__cluster").in_bulk({row.device_id for row in processes})
    readings = Reading.unscoped.filter(
        at_ms__gte=since_ms,
        channel__scope=Scope.PROCESS,
        channel__process_id__in=[row.pk for row in processes],
    )
    columns = ("channel__process_id", "cores_used", "memory_used_mib")
    # In order of time, so that the last value stays.
    used = {pk: (cores, memory) for pk, cores, memory in readings.order_by("at_ms").values_list(*columns)}
    return [
        StrayProcess(row, devices[row.device_id], *used.get(row.pk, (None, None)))
        for row in processes
        if row.device_id in devices
    ]
