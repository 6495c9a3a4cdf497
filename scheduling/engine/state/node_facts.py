"""This module divides the facts of a node: its layout in the fleet, the lasting facts, and its usage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from scheduling.engine.model import Device, Node


def sort_node_parts(node: Node) -> Node:
    """Return the node with its parts sorted: cards by index, everything else by name."""
    devices = _sort_devices(node.devices)
    extended, used = tuple(sorted(node.extended)), tuple(sorted(node.used_extended))
    if devices is node.devices and (extended, used) == (node.extended, node.used_extended):
        return node
    return replace(node, devices=devices, extended=extended, used_extended=used)


def select_layout_facts(node: Node) -> tuple[object, ...]:
    """Return the facts that fix rows, columns and capacity; a node that changes them needs a new fleet."""
    return (
        node.rank, node.cpu, node.memory, node.pods, node.extended,
        tuple(_select_fixed_facts(device) for device in node.devices),
    )  # fmt: skip


def select_lasting_facts(node: Node) -> tuple[object, ...]:
    """Return the facts that lasting vetoes and derived tables read; no placement of a task changes them."""
    return (
        node.cluster, node.name, node.labels, node.taints, node.ready, node.schedulable, node.pressure,
        tuple(device.healthy for device in node.devices),
    )  # fmt: skip


def remove_faults(node: Node) -> Node:
    """Return the node without faults and pressure; its usage stays."""
    if node.ready and node.schedulable and not node.pressure:
        return node
    return replace(node, ready=True, schedulable=True, pressure=())


def empty_node(node: Node) -> Node:
    """Return the node without faults and without usage."""
    return replace(
        remove_faults(node),
        used_cpu=0,
        used_memory=0,
        used_pods=0,
        used_extended=(),
        devices=tuple(
            replace(d, healthy=True, used_cores=0, used_memory=0, holders=0, exclusive=False)
            for d in node.devices
        ),
    )


def _select_fixed_facts(device: Device) -> tuple[object, ...]:
    return (
        device.uuid, device.index, device.model, device.mode, device.cores, device.memory, device.profile,
    )  # fmt: skip


def _sort_devices(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    keys = [(device.index, device.uuid) for device in devices]
    if all(key < after for key, after in pairwise(keys)):
        return devices
    return tuple(sorted(devices, key=lambda device: (device.index, device.uuid)))
