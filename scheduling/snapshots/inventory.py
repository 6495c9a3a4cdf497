"""Converts rows of nodes, cards and flavors of a cell to the engine's."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from clusters.models import Device, Flavor, GpuMode, Node
from clusters.services.node_life import is_node_schedulable
from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.engine_input.jobs import read_toleration

_FLAVORS: Final = PreparedQuery(lambda cell: Flavor.unscoped.filter(cluster__cell_id=cell).order_by("id"))


def devices_of(rows: Any) -> dict[uuid.UUID, list[Device]]:
    by_node: defaultdict[uuid.UUID, list[Device]] = defaultdict(list)
    for device in rows.order_by("node_id", "index", "uuid"):
        by_node[device.node_id].append(device)
    return dict(by_node)


def engine_nodes(cell_id: uuid.UUID, devices: Mapping[uuid.UUID, Sequence[Device]]) -> list[em.Node]:
    rows = Node.unscoped.filter(cluster__cell_id=cell_id, present=True).order_by("cluster_id", "name")
    now = clock.now()
    return [engine_node(node, devices.get(node.pk, ()), rank, now) for rank, node in enumerate(rows)]


def with_tasks(nodes: Iterable[em.Node], held: Iterable[em.Allocation]) -> list[em.Node]:
    """Return the nodes with the pods of the allocations added to their used pods."""
    tasks = Counter(allocation.node for allocation in held)
    return [
        replace(node, used_pods=node.used_pods + tasks[node.id]) if node.id in tasks else node
        for node in nodes
    ]


def engine_node(node: Node, devices: Sequence[Device], rank: int, now: datetime) -> em.Node:
    """Return the engine's node; `devices` are its cards, `rank` orders nodes that suit a task equally
    well."""
    return em.Node(
        id=str(node.pk),
        cluster=str(node.cluster_id),
        name=node.name,
        labels=node.labels,
        taints=tuple(_taint(taint) for taint in node.taints),
        ready=node.ready,
        schedulable=is_node_schedulable(node, now),
        # Requests of pods that belong to the node itself are subtracted from its capacity: they never end.
        cpu=max(node.cpu_millicores - node.cpu_standing, 0),
        memory=max(node.memory_mib - node.memory_standing, 0),
        used_cpu=node.cpu_granted + node.cpu_foreign - node.cpu_standing,
        used_memory=node.memory_granted + node.memory_foreign - node.memory_standing,
        pods=None if node.pods is None else max(node.pods - node.pods_standing, 0),
        used_pods=node.pods_foreign - node.pods_standing,
        devices=tuple(_device(device) for device in devices),
        rank=rank,
        pressure=tuple(em.Pressure(word) for word in node.pressure),
    )


def _device(device: Device) -> em.Device:
    holders, cores, memory = device.holders, device.cores_granted, device.memory_granted
    if device.foreign_holders:  # checked first, because few cards have any
        holders += device.foreign_holders
        cores += device.cores_foreign
        memory += device.memory_foreign
    return em.Device(
        uuid=device.uuid,
        index=device.index,
        model=device.model,
        mode=em.GpuMode(device.mode),
        healthy=device.healthy,
        cores=device.cores_capacity,
        memory=device.memory_capacity,
        used_cores=cores,
        used_memory=memory,
        holders=holders,
        exclusive=holders == 1 and cores >= device.cores_capacity,
        profile=device.profile,
    )


def _taint(taint: Mapping[str, str]) -> em.Taint:
    return em.Taint(taint["key"], taint.get("value", ""), em.TaintEffect(taint.get("effect", "NoSchedule")))


def engine_flavors(cell_id: uuid.UUID) -> list[em.Flavor]:
    """Return the flavors of a cell."""
    return [
        em.Flavor(
            id=str(flavor.pk),
            cluster=str(flavor.cluster_id),
            node_labels=flavor.node_selector,
            taints=tuple(_taint(taint) for taint in flavor.taints),
            tolerations=tuple(read_toleration(item) for item in flavor.tolerations),
            card_model=flavor.card_model,
            card_memory=flavor.card_memory_mib,
            mode=em.GpuMode.WHOLE if flavor.gpu_mode == GpuMode.NONE else em.GpuMode(flavor.gpu_mode),
            policy=flavor.placement_policy.value,
        )
        for flavor in _FLAVORS(cell_id)
    ]
