"""Nodes and cards as arrays, one row per node, one column per card.

Rows stand in (rank, id) order, so that the first of several equal maxima is also the tie-break.
What can change while a cycle simulates (free amounts, holders) is apart from what cannot (capacity,
labels, models); every change of the first kind is written to `touched`, which lets caches rescore
only the rows that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Device, DeviceSlice, GpuMode, Node

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = Ints | slice

ALL_ROWS = slice(None)
MODES: tuple[GpuMode, ...] = tuple(GpuMode)
# A snapshot may live for days. When the log of changes is this long it is cut, and whoever reads it
# starts over: `epoch` tells.
KEPT_CHANGES = 1_000_000


@dataclass(frozen=True, slots=True)
class Hold:
    """What one task takes from one row: millicores, MiB, and for each column cores, MiB, exclusive."""

    cpu: int
    memory: int
    cards: tuple[tuple[int, int, int, bool], ...] = ()


class Fleet:
    """The inventory of a snapshot. Arrays are `[nodes]` or `[nodes, cards]`, integers in model units.

    `memo` keeps facts derived from the inventory for as long as the fleet lives; nothing may depend
    on whether an entry is there.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: list[Node] = sorted(nodes, key=lambda node: (node.rank, node.id))
        self.row = {node.id: index for index, node in enumerate(self.nodes)}
        self.models = sorted({device.model for node in self.nodes for device in node.devices})
        self.touched: list[int] = []
        self.epoch = 0
        self.memo: dict[object, object] = {}
        count, width = len(self.nodes), max((len(node.devices) for node in self.nodes), default=0)
        self.cpu, self.memory, self.cpu_free, self.memory_free = (np.zeros(count, np.int64) for _ in range(4))
        self.ready, self.schedulable = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        shape = (count, width)
        self.present, self.healthy, self.exclusive = (np.zeros(shape, np.bool_) for _ in range(3))
        self.model, self.mode = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        self.card_cores, self.card_memory, self.cores_free, self.card_memory_free, self.holders = (
            np.zeros(shape, np.int64) for _ in range(5)
        )
        self.columns: list[dict[str, int]] = [{} for _ in self.nodes]
        model_code = {model: code for code, model in enumerate(self.models)}
        for index, node in enumerate(self.nodes):
            self._load(index, node, model_code)

    def __len__(self) -> int:
        return len(self.nodes)

    def device(self, row: int, column: int) -> Device:
        """The card's fixed facts; usage inside it is as of the load."""
        return self.nodes[row].devices[column]

    def hold(self, row: int, taken: Hold) -> None:
        """Take amounts from a node. Facts are booked as they are: it is the placer that checks."""
        self._book(row, taken, 1)

    def release(self, row: int, taken: Hold) -> None:
        """Give back what `hold` took."""
        self._book(row, taken, -1)

    def hold_of(self, row: int, cpu: int, memory: int, slices: Sequence[DeviceSlice]) -> Hold:
        """A task's hold in columns; a card that the node does not list is left out."""
        columns = self.columns[row]
        cards = tuple(
            (columns[part.device], part.cores, part.memory, part.exclusive)
            for part in slices
            if part.device in columns
        )
        return Hold(cpu, memory, cards)

    def export(self, row: int) -> Node:
        """The node with its usage as it is now."""
        node = self.nodes[row]
        devices = tuple(
            replace(
                device,
                used_cores=int(self.card_cores[row, column] - self.cores_free[row, column]),
                used_memory=int(self.card_memory[row, column] - self.card_memory_free[row, column]),
                holders=int(self.holders[row, column]),
                exclusive=bool(self.exclusive[row, column]),
            )
            for column, device in enumerate(node.devices)
        )
        return replace(
            node,
            used_cpu=int(self.cpu[row] - self.cpu_free[row]),
            used_memory=int(self.memory[row] - self.memory_free[row]),
            devices=devices,
        )

    def emptied(self) -> Fleet:
        """The same inventory with nothing held and nothing broken: what could ever be there."""
        return Fleet(
            replace(
                node,
                ready=True,
                schedulable=True,
                used_cpu=0,
                used_memory=0,
                devices=tuple(
                    replace(d, healthy=True, used_cores=0, used_memory=0, holders=0, exclusive=False)
                    for d in node.devices
                ),
            )
            for node in self.nodes
        )

    def _book(self, row: int, taken: Hold, sign: int) -> None:
        self.cpu_free[row] -= sign * taken.cpu
        self.memory_free[row] -= sign * taken.memory
        for column, cores, memory, exclusive in taken.cards:
            self.cores_free[row, column] -= sign * cores
            self.card_memory_free[row, column] -= sign * memory
            self.holders[row, column] += sign
            if exclusive:
                self.exclusive[row, column] = sign > 0
        self.touched.append(row)
        if len(self.touched) > KEPT_CHANGES:
            self.touched.clear()
            self.epoch += 1

    def _load(self, row: int, node: Node, model_code: dict[str, int]) -> None:
        devices = tuple(sorted(node.devices, key=lambda device: (device.index, device.uuid)))
        self.nodes[row] = node if devices == node.devices else replace(node, devices=devices)
        self.cpu[row], self.memory[row] = node.cpu, node.memory
        self.cpu_free[row] = node.cpu - node.used_cpu
        self.memory_free[row] = node.memory - node.used_memory
        self.ready[row], self.schedulable[row] = node.ready, node.schedulable
        for column, device in enumerate(devices):
            at = (row, column)
            self.columns[row][device.uuid] = column
            self.present[at], self.healthy[at], self.exclusive[at] = True, device.healthy, device.exclusive
            self.model[at], self.mode[at] = model_code[device.model], MODES.index(device.mode)
            self.card_cores[at], self.card_memory[at] = device.cores, device.memory
            self.cores_free[at] = device.cores - device.used_cores
            self.card_memory_free[at] = device.memory - device.used_memory
            self.holders[at] = device.holders
