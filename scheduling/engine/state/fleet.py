"""Nodes and cards as arrays, one row per node, one column per card.

Rows are in (rank, id) order, so that the first of several equal maxima is also the tie-break. Facts that a
simulation changes (free amounts, holders) are separate from facts that it does not change (capacity, labels,
models). Every change of usage is appended to `changed_rows`, so that caches score only those rows again.
Facts that last through a cycle but can change between cycles (labels, taints, readiness, health) change by
`update_node`, which appends to `revised_rows`. Arrays for rare facts exist only if a node has such a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Device, DeviceSlice, Extended, GpuMode, Node
from scheduling.engine.state.node_facts import (
    empty_node,
    remove_faults,
    select_lasting_facts,
    select_layout_facts,
    sort_node_parts,
)
from scheduling.engine.state.pod_index import PodIndex
from scheduling.engine.state.row_changes import RowChangeLog

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = Ints | slice

ALL_ROWS = slice(None)
MODES: tuple[GpuMode, ...] = tuple(GpuMode)
# A snapshot may live for days. The log of changes is cut at this length; readers start over when `epoch`
# changes.
MAX_LOGGED_CHANGES = 1_000_000
# The arrays that are changed in place; all others are constant for the life of the fleet.
CHANGING_ARRAYS = (
    "cpu_free",
    "memory_free",
    "used_pods",
    "ready",
    "schedulable",
    "classes",
    "healthy",
    "exclusive",
    "cores_free",
    "card_memory_free",
    "holders",
    "_sole_holders",
)
# The capacity of nodes without a limit of pods.
UNLIMITED_PODS = 2**31
# The usage of a task on each card of a node: column, core units, MiB, and whether it excludes other tasks.
CardUsages = tuple[tuple[int, int, int, bool], ...]


@lru_cache
def _ones(width: int, kind: type[np.generic]) -> NDArray[Any]:
    return np.ones(width, kind)


def count_marked(cards: Bools) -> Ints:
    """Return the number of marked cards of each row.

    For few columns a product takes a sixth of the time of numpy's sum, and is as exact.
    """
    counts: Ints = (cards @ _ones(cards.shape[1], np.float32)).astype(np.int64)
    return counts


def sum_rows(amounts: Ints) -> Ints:
    """Return the sum of each row; see `count_marked`."""
    sums: Ints = amounts @ _ones(amounts.shape[1], np.int64)
    return sums


class Fleet:
    """The inventory of a snapshot. Arrays are `[nodes]` or `[nodes, cards]`, integers in model units.

    `extended` and `extended_free` have an array per named resource. `pods` is None if no node limits its
    tasks, `profile` (codes, -1 for none) if no card has one.
    `classes` `[nodes, cards + 1]` counts the snapshot's tasks with cards: first those with parts of cards,
    then those with one whole card, with two, and so on. `memo` caches facts derived from the inventory until
    it changes; no result may depend on whether an entry exists. `hypothetical` marks a fleet without usage
    and faults, which shows whether a task could ever be placed.
    """

    follows_fleet = True

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: list[Node] = [
            sort_node_parts(node) for node in sorted(nodes, key=lambda n: (n.rank, n.id))
        ]
        self.row = {node.id: index for index, node in enumerate(self.nodes)}
        self.models = sorted({device.model for node in self.nodes for device in node.devices})
        self.hypothetical = False
        self._start_log()
        self.epoch = 0
        self.memo: dict[object, object] = {}
        self.pod_index = PodIndex()
        self._allocate_arrays()
        model_code = {model: code for code, model in enumerate(self.models)}
        for index, node in enumerate(self.nodes):
            self._load(index, node, model_code)
        self._load_rare_facts()

    def __len__(self) -> int:
        return len(self.nodes)

    def copy(self) -> Fleet:
        """Return an independent copy with the same inventory and usage."""
        twin = copy(self)
        twin.nodes = list(self.nodes)
        for name in CHANGING_ARRAYS:
            setattr(twin, name, getattr(self, name).copy())
        twin._view()
        twin.extended_free = {name: free.copy() for name, free in self.extended_free.items()}
        twin.pod_index = self.pod_index.copy()
        twin._start_log()
        twin.memo = {
            key: item
            for key, item in self.memo.items()
            if key == "empty" or not getattr(item, "follows_fleet", False)
        }
        return twin

    def rows_changed_since(self, seen: int) -> Ints:
        """Return the rows in `changed_rows` after its first `seen` entries, each once, ascending."""
        return self._row_changes.rows_since(seen)

    def device_at(self, row: int, column: int) -> Device:
        """Return a card; its usage is that of the last `update_node`, not the present one."""
        return self.nodes[row].devices[column]

    def find_card_usages(self, row: int, slices: Sequence[DeviceSlice]) -> CardUsages:
        """Return the usage of a task by columns; a card that the node does not list is left out."""
        columns = self.columns[row]
        cards = [
            (columns[device], cores, space, exclusive)
            for device, cores, space, exclusive in slices
            if device in columns
        ]
        return tuple(cards)

    def count_task_class(self, row: int, cards: CardUsages) -> None:
        """Count a task in its class; the amounts of a task that came with its node are counted already."""
        if cards:
            self.classes[row, len(cards) if cards[0][3] else 0] += 1

    def update_node(self, node: Node) -> bool:
        """Update a node in place, and return whether that was possible.

        A node of another size, with other cards or of another rank needs a new fleet; then nothing changes.
        """
        row = self.row.get(node.id)
        if row is None:
            return False
        fresh, known = sort_node_parts(node), self.nodes[row]
        unknown = any(item.resource not in self.extended for item in fresh.used_extended)
        if unknown or select_layout_facts(fresh) != select_layout_facts(known):
            return False
        self.nodes[row] = fresh
        self._fill(row, fresh)
        if select_lasting_facts(fresh) != select_lasting_facts(known):
            self._revise(row, fresh)
        self.changed_rows.append(row)
        if len(self.changed_rows) > MAX_LOGGED_CHANGES:
            self._forget_changes()
        return True

    def export_node(self, row: int) -> Node:
        """Return the node with its present usage."""
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
            used_pods=int(self.used_pods[row]),
            used_extended=self._used_extended(row),
            devices=devices,
        )

    def copy_empty(self) -> Fleet:
        """Return a hypothetical fleet: the same inventory without usage and without faults."""
        empty = self.copy()
        empty.hypothetical = True
        empty.memo = {}
        empty.nodes = [remove_faults(node) for node in self.nodes]
        empty.pod_index = PodIndex()
        empty.cpu_free[:], empty.memory_free[:] = self.cpu, self.memory
        empty.cores_free[:], empty.card_memory_free[:] = self.card_cores, self.card_memory
        empty.extended_free = {name: amount.copy() for name, amount in self.extended.items()}
        empty.healthy[:] = self.present
        for everywhere in (empty.ready, empty.schedulable):
            everywhere[:] = True
        for nothing in (empty.used_pods, empty.classes, empty.holders, empty._sole_holders):
            nothing[:] = 0
        empty.exclusive[:] = False
        return empty

    def _used_extended(self, row: int) -> tuple[Extended, ...]:
        used = (
            (name, int(self.extended[name][row] - self.extended_free[name][row])) for name in self.extended
        )
        return tuple(Extended(name, amount) for name, amount in used if amount)

    def _forget_changes(self) -> None:
        self._start_log()
        self.epoch += 1

    def _start_log(self) -> None:
        self.changed_rows: list[int] = []
        self.revised_rows: list[int] = []
        self._row_changes = RowChangeLog(self.changed_rows, len(self.nodes))

    def change_usage(
        self,
        row: int,
        cpu: int,
        memory: int,
        cards: CardUsages,
        extended: tuple[Extended, ...] = (),
        sign: int = 1,
    ) -> None:
        """Add (`sign` 1) or remove (-1) the usage of a task; the placer checks that it fits."""
        if extended:
            self._change_extended(row, extended, sign)
        cpu_free, memory_free, used_pods, classes = self._of_nodes
        cpu_free[row] -= sign * cpu
        memory_free[row] -= sign * memory
        used_pods[row] += sign
        if cards:
            classes[row, len(cards) if cards[0][3] else 0] += sign
            cores_free, card_memory_free, holders, sole_holders, closed = self._of_cards
            first = row * self._width
            for column, cores, space, exclusive in cards:
                at = first + column
                cores_free[at] -= sign * cores
                if space:
                    card_memory_free[at] -= sign * space
                holders[at] += sign
                if exclusive:
                    # A claim may name the card of a terminating task: then several tasks hold it exclusively.
                    sole_holders[at] = now = sole_holders[at] + sign
                    closed[at] = now > 0
        self.changed_rows.append(row)
        if len(self.changed_rows) > MAX_LOGGED_CHANGES:
            self._forget_changes()

    def _change_extended(self, row: int, extended: tuple[Extended, ...], sign: int) -> None:
        for item in extended:
            free = self.extended_free.get(item.resource)
            if free is not None:
                free[row] -= sign * item.amount

    def _revise(self, row: int, node: Node) -> None:
        """Discard derived facts, except those that follow `revised_rows` themselves."""
        following = {key: item for key, item in self.memo.items() if getattr(item, "follows_fleet", False)}
        empty = self.memo.get("empty")
        if isinstance(empty, Fleet):
            empty.update_node(empty_node(node))
        self.memo.clear()
        self.memo.update(following)
        self.revised_rows.append(row)

    def _allocate_arrays(self) -> None:
        count, width = len(self.nodes), max((len(node.devices) for node in self.nodes), default=0)
        self.cpu, self.memory, self.cpu_free, self.memory_free = (np.zeros(count, np.int64) for _ in range(4))
        self.used_pods: Ints = np.zeros(count, np.int64)
        self.ready, self.schedulable = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        shape = (count, width)
        self.classes: Ints = np.zeros((count, width + 1), np.int64)
        self.present, self.healthy, self.exclusive = (np.zeros(shape, np.bool_) for _ in range(3))
        self.model, self.mode = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        self.card_cores, self.card_memory, self.cores_free, self.card_memory_free, self.holders = (
            np.zeros(shape, np.int64) for _ in range(5)
        )
        self._sole_holders: Ints = np.zeros(shape, np.int64)
        self._view()
        self.columns: list[dict[str, int]] = [{} for _ in self.nodes]
        named = {item.resource for n in self.nodes for part in (n.extended, n.used_extended) for item in part}
        self.extended: dict[str, Ints] = {name: np.zeros(count, np.int64) for name in sorted(named)}
        self.extended_free: dict[str, Ints] = {name: np.zeros(count, np.int64) for name in sorted(named)}

    def _view(self) -> None:
        """Create the views through which single numbers are read and written.

        A memory view is several times as fast as an array for one number, and a flat one faster still.
        """
        of_nodes = self.cpu_free, self.memory_free, self.used_pods, self.classes
        of_cards = self.cores_free, self.card_memory_free, self.holders, self._sole_holders, self.exclusive
        self._of_nodes: tuple[Any, ...] = tuple(array.data for array in of_nodes)
        self._of_cards: tuple[Any, ...] = tuple(array.reshape(-1).data for array in of_cards)
        self._width = self.present.shape[1]

    def _load(self, row: int, node: Node, model_code: dict[str, int]) -> None:
        self.cpu[row], self.memory[row] = node.cpu, node.memory
        for item in node.extended:
            self.extended[item.resource][row] += item.amount
        for column, device in enumerate(node.devices):
            at = (row, column)
            self.columns[row][device.uuid] = column
            self.present[at] = True
            self.model[at], self.mode[at] = model_code[device.model], MODES.index(device.mode)
            self.card_cores[at], self.card_memory[at] = device.cores, device.memory
        self._fill(row, node)

    def _fill(self, row: int, node: Node) -> None:
        """Write the usage of a node and its lasting facts."""
        self.cpu_free[row] = node.cpu - node.used_cpu
        self.memory_free[row] = node.memory - node.used_memory
        self.used_pods[row] = node.used_pods
        self.ready[row], self.schedulable[row] = node.ready, node.schedulable
        for column, device in enumerate(node.devices):
            at = (row, column)
            self.healthy[at], self.exclusive[at] = device.healthy, device.exclusive
            self._sole_holders[at] = int(device.exclusive)
            self.cores_free[at] = device.cores - device.used_cores
            self.card_memory_free[at] = device.memory - device.used_memory
            self.holders[at] = device.holders
        for name, free in self.extended_free.items():
            free[row] = self.extended[name][row]
        for item in node.used_extended:
            self.extended_free[item.resource][row] -= item.amount

    def _load_rare_facts(self) -> None:
        limited = any(node.pods is not None for node in self.nodes)
        self.pods: Ints | None = None
        if limited:
            self.pods = np.array([UNLIMITED_PODS if n.pods is None else n.pods for n in self.nodes], np.int64)
        devices = [device for node in self.nodes for device in node.devices]
        self.profiles = sorted({device.profile for device in devices if device.profile})
        self.profile = self._profile_codes()

    def _profile_codes(self) -> Ints | None:
        if not self.profiles:
            return None
        code = {name: index for index, name in enumerate(self.profiles)}
        codes: Ints = np.full(self.present.shape, -1, np.int64)
        for row, node in enumerate(self.nodes):
            for column, device in enumerate(node.devices):
                codes[row, column] = code.get(device.profile, -1)
        return codes
