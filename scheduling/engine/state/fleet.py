"""Nodes and cards as arrays, one row per node, one column per card.

Rows stand in (rank, id) order, so that the first of several equal maxima is also the tie-break.
What can change while a cycle simulates (free amounts, holders) is apart from what cannot (capacity,
labels, models); every change of the first kind is written to `touched`, which lets caches rescore
only the rows that changed. What lasts through a cycle but not for ever (labels, taints, readiness,
health) changes by `put`, which writes `revised`. What few nodes have is kept only where one has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Device, DeviceSlice, Extended, GpuMode, Node, ZoneShare
from scheduling.engine.state.bare import emptied, intact, lasting, layout, normal
from scheduling.engine.state.presence import Presences
from scheduling.engine.state.touches import Touches
from scheduling.engine.state.zones import ZoneStock, aligns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = Ints | slice

ALL_ROWS = slice(None)
MODES: tuple[GpuMode, ...] = tuple(GpuMode)
# A snapshot may live for days. When the log of changes is this long it is cut, and whoever reads it
# starts over: `epoch` tells.
KEPT_CHANGES = 1_000_000
# The arrays that nodes and tasks change in place; all others last as long as the fleet.
CHANGING = (
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
# For nodes that take any number of tasks.
MANY = 2**31
# What a task takes of cards: column, cores, MiB, and whether nobody else may have a part of the card.
Parts = tuple[tuple[int, int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """What one task takes from one row: millicores, MiB, and for each column cores, MiB, exclusive.

    `extended` and `zones` as in an allocation.
    """

    cpu: int
    memory: int
    cards: Parts = ()
    extended: tuple[Extended, ...] = ()
    zones: tuple[ZoneShare, ...] = ()


class Fleet:
    """The inventory of a snapshot. Arrays are `[nodes]` or `[nodes, cards]`, integers in model units.

    `extended` and `extended_free` have an array per named resource; `pods` is None where no node limits
    its tasks, `zones` where no node aligns them, `profile` and `clique` (codes, -1 for none) where no
    card has one. `classes` `[nodes, cards + 1]` counts the snapshot's tasks with cards: those with parts
    of cards first, then those with one whole card, with two, and so on. `memo` keeps facts derived from
    the inventory for as long as it stays as it is; nothing may depend on whether an entry is there.
    `hypothetical` marks a fleet that stands for what could ever be.
    """

    follows_fleet = True

    def __init__(self, nodes: Iterable[Node], *, hypothetical: bool = False) -> None:
        self.nodes: list[Node] = [normal(node) for node in sorted(nodes, key=lambda n: (n.rank, n.id))]
        self.row = {node.id: index for index, node in enumerate(self.nodes)}
        self.models = sorted({device.model for node in self.nodes for device in node.devices})
        self.hypothetical = hypothetical
        self._start_log()
        self.epoch = 0
        self.memo: dict[object, object] = {}
        self.presences = Presences()
        self._allocate_arrays()
        model_code = {model: code for code, model in enumerate(self.models)}
        for index, node in enumerate(self.nodes):
            self._load(index, node, model_code)
        self._load_rare()

    def __len__(self) -> int:
        return len(self.nodes)

    def copy(self) -> Fleet:
        """The same inventory with the same usage; from then on each goes its own way."""
        twin = copy(self)
        twin.nodes = list(self.nodes)
        for name in CHANGING:
            setattr(twin, name, getattr(self, name).copy())
        twin._view()
        twin.extended_free = {name: free.copy() for name, free in self.extended_free.items()}
        twin.presences = self.presences.copy()
        twin.zones = None if self.zones is None else self.zones.copy()
        twin._start_log()
        twin.memo = {
            key: item
            for key, item in self.memo.items()
            if key == "empty" or not getattr(item, "follows_fleet", False)
        }
        return twin

    def touched_since(self, seen: int) -> Ints:
        """The rows in `touched` after its first `seen` entries, each once, ascending."""
        return self._touches.since(seen)

    def device(self, row: int, column: int) -> Device:
        """The card's fixed facts; usage inside it is as of the load."""
        return self.nodes[row].devices[column]

    def hold(self, row: int, taken: Hold) -> None:
        """Take amounts from a node. Facts are booked as they are: it is the placer that checks."""
        self._book(row, taken, 1)

    def release(self, row: int, taken: Hold) -> None:
        """Give back what `hold` took."""
        self._book(row, taken, -1)

    def hold_of(
        self,
        row: int,
        cpu: int,
        memory: int,
        slices: Sequence[DeviceSlice],
        extended: tuple[Extended, ...] = (),
        zones: tuple[ZoneShare, ...] = (),
    ) -> Hold:
        """A task's hold in columns; a card that the node does not list is left out."""
        columns = self.columns[row]
        cards = tuple(
            (columns[part.device], part.cores, part.memory, part.exclusive)
            for part in slices
            if part.device in columns
        )
        return Hold(cpu, memory, cards, extended, zones)

    def settle(self, row: int, taken: Hold, sign: int = 1) -> None:
        """Count a task by its class; for one whose amounts came with the node this is all there is to do."""
        if taken.cards:
            self.classes[row, len(taken.cards) if taken.cards[0][3] else 0] += sign

    def put(self, node: Node) -> bool:
        """Bring a known node up to date in place; False when its size, cards or rank are others.

        Then the fleet is as it was, and a new one has to be made.
        """
        row = self.row.get(node.id)
        if row is None:
            return False
        fresh, known = normal(node), self.nodes[row]
        unknown = any(item.resource not in self.extended for item in fresh.used_extended)
        if unknown or layout(fresh) != layout(known):
            return False
        self.nodes[row] = fresh
        self._fill(row, fresh)
        if lasting(fresh) != lasting(known):
            self._revise(row, fresh)
        self.touched.append(row)
        if len(self.touched) > KEPT_CHANGES:
            self._forget_changes()
        return True

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
        zones = None if self.zones is None else self.zones.export(row)
        return replace(
            node,
            used_cpu=int(self.cpu[row] - self.cpu_free[row]),
            used_memory=int(self.memory[row] - self.memory_free[row]),
            used_pods=int(self.used_pods[row]),
            used_extended=self._used_extended(row),
            numa=node.numa if zones is None else zones,
            devices=devices,
        )

    def emptied(self) -> Fleet:
        """The same inventory with nothing held and nothing broken: what could ever be there."""
        empty = self.copy()
        empty.hypothetical = True
        empty.memo = {}
        empty.nodes = [intact(node) for node in self.nodes]
        empty.presences = Presences()
        empty.cpu_free[:], empty.memory_free[:] = self.cpu, self.memory
        empty.cores_free[:], empty.card_memory_free[:] = self.card_cores, self.card_memory
        empty.extended_free = {name: amount.copy() for name, amount in self.extended.items()}
        empty.healthy[:] = self.present
        for everywhere in (empty.ready, empty.schedulable):
            everywhere[:] = True
        for nothing in (empty.used_pods, empty.classes, empty.holders, empty._sole_holders):
            nothing[:] = 0
        empty.exclusive[:] = False
        empty.zones = None if self.zones is None else self.zones.emptied()
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
        self.touched: list[int] = []
        self.revised: list[int] = []
        self._touches = Touches(self.touched, len(self.nodes))

    def take(self, row: int, cpu: int, memory: int, cards: Parts, sign: int = 1) -> None:
        """As `hold`, or with -1 `release`, of what most tasks take; `cards` as in a `Hold`."""
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
                    # A place may be promised while somebody is still leaving it: several then hold the card.
                    sole_holders[at] = now = sole_holders[at] + sign
                    closed[at] = now > 0
        self.touched.append(row)
        if len(self.touched) > KEPT_CHANGES:
            self._forget_changes()

    def _book(self, row: int, taken: Hold, sign: int) -> None:
        for item in taken.extended:
            free = self.extended_free.get(item.resource)
            if free is not None:
                free[row] -= sign * item.amount
        if taken.zones and self.zones is not None:
            self.zones.book(row, taken.zones, sign)
        self.take(row, taken.cpu, taken.memory, taken.cards, sign)

    def _revise(self, row: int, node: Node) -> None:
        """Let go of what was derived, but for those who follow `revised` themselves."""
        kept = {key: item for key, item in self.memo.items() if getattr(item, "follows_fleet", False)}
        empty = self.memo.get("empty")
        if isinstance(empty, Fleet):
            empty.put(emptied(node))
        self.memo.clear()
        self.memo.update(kept)
        self.revised.append(row)

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
        """Single numbers are read and written through views several times as fast as through arrays, and
        where rows follow one another faster still."""
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
        self._fill(row, node, zones=False)

    def _fill(self, row: int, node: Node, *, zones: bool = True) -> None:
        """Write what is used of a node, and what may change of it."""
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
        if zones and self.zones is not None:
            self.zones.put(row, node)

    def _load_rare(self) -> None:
        limited = any(node.pods is not None for node in self.nodes)
        self.pods: Ints | None = None
        if limited:
            self.pods = np.array([MANY if n.pods is None else n.pods for n in self.nodes], np.int64)
        aligning = [row for row, node in enumerate(self.nodes) if aligns(node)]
        width = self.present.shape[1]
        self.zones = ZoneStock(self.nodes, aligning, width) if aligning else None
        devices = [device for node in self.nodes for device in node.devices]
        self.profiles = sorted({device.profile for device in devices if device.profile})
        self.cliques = sorted({device.clique for device in devices if device.clique})
        self.profile = self._codes("profile", self.profiles)
        self.clique = self._codes("clique", self.cliques)

    def _codes(self, what: str, names: list[str]) -> Ints | None:
        if not names:
            return None
        code = {name: index for index, name in enumerate(names)}
        codes: Ints = np.full(self.present.shape, -1, np.int64)
        for row, node in enumerate(self.nodes):
            for column, device in enumerate(node.devices):
                codes[row, column] = code.get(getattr(device, what), -1)
        return codes
