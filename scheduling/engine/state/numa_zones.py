"""NUMA zones of the nodes that align tasks to them, as arrays.

Sets of zones are rows of `masks`: small sets first, equal sizes in ascending order of their zones, so that
the first set that fits is the one that the kubelet takes (Kubernetes, Topology Manager: the narrowest
affinity).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Node, NumaPolicy, NumaZone, ZoneShare

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

POLICIES: tuple[NumaPolicy, ...] = tuple(NumaPolicy)
# The capacity of a zone that does not limit a resource: above any request, small enough to be summed.
UNBOUNDED = 2**56
NO_ZONE = -1
# The kubelet tries all combinations up to this number of zones as well.
MAX_COMBINED_ZONES = 8


class NumaZones:
    """Zones of `n` nodes; arrays are `[n, zones]`, zones in the order of their ids.

    `place_of_row` `[rows]` is the index of a node in these arrays, -1 for nodes that align nothing.
    `card_zone` `[n, cards]` is the zone of each card, -1 for a card that belongs to none.
    """

    def __init__(self, nodes: Sequence[Node], rows: Sequence[int], cards: int) -> None:
        self.place_of_row: Ints = np.full(len(nodes), -1, np.int64)
        self.place_of_row[list(rows)] = np.arange(len(rows))
        members = [nodes[row] for row in rows]
        self.zones: list[tuple[NumaZone, ...]] = [_in_order(node) for node in members]
        width = max((len(zones) for zones in self.zones), default=0)
        self.masks = _masks(width)
        self.sizes: Ints = self.masks.sum(axis=1)
        shape = (len(members), width)
        self.known: Bools = np.zeros(shape, np.bool_)
        self.cpu, self.memory = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.cpu_free, self.memory_free = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.policy: Ints = np.zeros(len(members), np.int64)
        self.card_zone: Ints = np.full((len(members), cards), NO_ZONE, np.int64)
        for place, node in enumerate(members):
            self._load(place, node)

    def copy(self) -> NumaZones:
        """Return an independent copy."""
        twin = copy(self)
        twin.zones = list(self.zones)
        twin.cpu_free, twin.memory_free = self.cpu_free.copy(), self.memory_free.copy()
        twin.known, twin.cpu, twin.memory = self.known.copy(), self.cpu.copy(), self.memory.copy()
        twin.policy, twin.card_zone = self.policy.copy(), self.card_zone.copy()
        return twin

    def copy_empty(self) -> NumaZones:
        """Return an independent copy without usage."""
        twin = self.copy()
        twin.cpu_free, twin.memory_free = self.cpu.copy(), self.memory.copy()
        return twin

    def add_usage(self, row: int, shares: Sequence[ZoneShare], sign: int) -> None:
        """Add (`sign` 1) or remove (-1) the usage of a task; zones that the node does not list are left
        out.
        """
        place = int(self.place_of_row[row])
        if place < 0:
            return
        columns = {zone.id: column for column, zone in enumerate(self.zones[place])}
        for share in shares:
            column = columns.get(share.zone)
            if column is not None:
                self.cpu_free[place, column] -= sign * share.cpu
                self.memory_free[place, column] -= sign * share.memory

    def update_node(self, row: int, node: Node) -> None:
        """Replace the usage of a node, whose zones are the same as before."""
        place = int(self.place_of_row[row])
        if place >= 0:
            self.zones[place] = _in_order(node)
            self._fill(place)

    def export_zones(self, row: int) -> tuple[NumaZone, ...] | None:
        """Return the zones of a node with their present usage; None for a node that aligns nothing."""
        place = int(self.place_of_row[row])
        if place < 0:
            return None
        return tuple(
            NumaZone(
                id=zone.id,
                cpu=zone.cpu,
                memory=zone.memory,
                used_cpu=int(self.cpu[place, column] - self.cpu_free[place, column]),
                used_memory=int(self.memory[place, column] - self.memory_free[place, column]),
            )
            for column, zone in enumerate(self.zones[place])
        )

    def _load(self, place: int, node: Node) -> None:
        self.policy[place] = POLICIES.index(node.numa_policy)
        zones = self.zones[place]
        for column, zone in enumerate(zones):
            self.known[place, column] = True
            self.cpu[place, column] = UNBOUNDED if zone.cpu is None else zone.cpu
            self.memory[place, column] = UNBOUNDED if zone.memory is None else zone.memory
        self._fill(place)
        columns = {zone.id: column for column, zone in enumerate(zones)}
        devices = sorted(node.devices, key=lambda device: (device.index, device.uuid))
        for column, device in enumerate(devices):
            if device.numa is not None:
                self.card_zone[place, column] = columns.get(device.numa, NO_ZONE)

    def _fill(self, place: int) -> None:
        for column, zone in enumerate(self.zones[place]):
            self.cpu_free[place, column] = self.cpu[place, column] - zone.used_cpu
            self.memory_free[place, column] = self.memory[place, column] - zone.used_memory


def aligns_tasks(node: Node) -> bool:
    """Return whether the node aligns tasks to its NUMA zones."""
    return bool(node.numa) and node.numa_policy is not NumaPolicy.NONE


def _in_order(node: Node) -> tuple[NumaZone, ...]:
    return tuple(sorted(node.numa, key=lambda zone: zone.id))


def _masks(width: int) -> Bools:
    """Return all sets of zones, or only runs of adjacent zones where there are too many sets."""
    sizes = range(1, width + 1)
    if width <= MAX_COMBINED_ZONES:
        sets = [chosen for size in sizes for chosen in combinations(range(width), size)]
    else:
        sets = [tuple(range(at, at + size)) for size in sizes for at in range(width - size + 1)]
    masks = np.zeros((len(sets), width), np.bool_)
    for index, chosen in enumerate(sets):
        masks[index, list(chosen)] = True
    return masks
