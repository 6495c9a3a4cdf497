"""Which facts of a node make up its place in a fleet, which last, and what is left when all leave."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from scheduling.engine.model import Device, Node


def normal(node: Node) -> Node:
    """The node with its parts in their one order: cards by index, all else by name."""
    devices = _ordered(node.devices)
    extended, used = tuple(sorted(node.extended)), tuple(sorted(node.used_extended))
    ports, numa = tuple(sorted(node.ports)), tuple(sorted(node.numa, key=lambda zone: zone.id))
    same = (
        devices is node.devices
        and (extended, used, ports, numa) == (node.extended, node.used_extended, node.ports, node.numa)
    )  # fmt: skip
    if same:
        return node
    return replace(node, devices=devices, extended=extended, used_extended=used, ports=ports, numa=numa)


def layout(node: Node) -> tuple[object, ...]:
    """What fixes rows, columns and capacity: a node that changes in this needs another fleet."""
    return (
        node.rank, node.cpu, node.memory, node.pods, node.extended, node.numa_policy,
        tuple((zone.id, zone.cpu, zone.memory) for zone in node.numa),
        tuple(_fixed(device) for device in node.devices),
    )  # fmt: skip


def lasting(node: Node) -> tuple[object, ...]:
    """What fixed vetoes and derived facts look at: no task's coming or going changes it."""
    return (
        node.cluster, node.name, node.labels, node.taints, node.ready, node.schedulable, node.pressure,
        node.images, tuple(device.healthy for device in node.devices),
    )  # fmt: skip


def intact(node: Node) -> Node:
    """The node with nothing broken, under no pressure and with all its ports; usage is left as it is."""
    if node.ready and node.schedulable and not node.pressure and not node.ports:
        return node
    return replace(node, ready=True, schedulable=True, pressure=(), ports=())


def emptied(node: Node) -> Node:
    """The node with nothing held and nothing broken."""
    return replace(
        intact(node),
        used_cpu=0,
        used_memory=0,
        used_pods=0,
        used_extended=(),
        numa=tuple(replace(zone, used_cpu=0, used_memory=0) for zone in node.numa),
        devices=tuple(
            replace(d, healthy=True, used_cores=0, used_memory=0, holders=0, exclusive=False)
            for d in node.devices
        ),
    )


def _fixed(device: Device) -> tuple[object, ...]:
    return (
        device.uuid, device.index, device.model, device.mode, device.cores, device.memory, device.numa,
        device.clique, device.profile,
    )  # fmt: skip


def _ordered(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    keys = [(device.index, device.uuid) for device in devices]
    if all(key < after for key, after in pairwise(keys)):
        return devices
    return tuple(sorted(devices, key=lambda device: (device.index, device.uuid)))
