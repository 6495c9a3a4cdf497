"""Nodes and cards of a cell, cached between cycles and updated by comparing the versions of their facts."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from clusters.models import Device, Node
from clusters.services.node_life import is_held
from foundation.core import clock
from scheduling import engine
from scheduling.engine import model as em
from scheduling.snapshots.cached_jobs import key_batches
from scheduling.snapshots.cell_snapshot import Contradiction
from scheduling.snapshots.inventory import devices_of, engine_node, with_tasks


@dataclass(slots=True)
class CachedNodes:
    """The cached nodes. `devices` are the keys of cards by uuid, `names` the names of nodes by id.

    Only the facts of nodes are compared. Allocated amounts follow from the allocations; the amounts of rows
    that are read must be equal to them.
    """

    cell_id: uuid.UUID
    devices: dict[str, uuid.UUID] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _version: int | None = None
    _marks: dict[uuid.UUID, tuple[int, int]] = field(default_factory=dict)
    # Until when nodes take no new tasks, and the nodes on which foreign pods get the next free cards.
    _held_until: dict[uuid.UUID, datetime] = field(default_factory=dict)
    _short: set[uuid.UUID] = field(default_factory=set)
    _cards: dict[uuid.UUID, list[str]] = field(default_factory=dict)
    _where: dict[str, uuid.UUID] = field(default_factory=dict)

    def read_changes(
        self, version: int, held: Collection[em.Allocation], again: Iterable[uuid.UUID] = ()
    ) -> tuple[list[em.Node], dict[str, int], list[str]]:
        """Read the changes; return new and changed nodes, changed ranks of other nodes, and ids of removed
        nodes.

        `version` is the version of the cell's inventory, `held` are the current allocations; the nodes
        `again` are read in any case.

        Raises: Contradiction when the row of a node or card differs from the allocations.
        """
        marks = self._marks if version == self._version else self._read_marks()
        changed = {
            pk for pk, (facts, _) in marks.items() if pk not in self._marks or self._marks[pk][0] != facts
        }
        now = clock.now()
        freed = {pk for pk, until in self._held_until.items() if until <= now}
        changed.update(pk for pk in (*again, *freed) if pk in marks)
        ranks = {
            str(pk): rank
            for pk, (_, rank) in marks.items()
            if pk not in changed and self._marks[pk][1] != rank
        }
        nodes = with_tasks(self._load(changed, marks, _NodeHolds(held), now), held) if changed else []
        removed = [pk for pk in self._marks if pk not in marks]
        for pk in removed:
            self._note_cards(pk, ())
            self._held_until.pop(pk, None)
            self._short.discard(pk)
        self._marks, self._version = marks, version
        return nodes, ranks, [str(pk) for pk in removed]

    def nodes_to_reread(self, held: em.Allocation) -> set[uuid.UUID]:
        """Return the nodes to read again when an allocation appears or disappears.

        These are the nodes to which its cards were moved, and nodes on which foreign pods take freed cards.
        """
        found = {self._where[part.device] for part in held.slices if part.device in self._where}
        return {pk for pk in found if str(pk) != held.node or pk in self._short}

    def _read_marks(self) -> dict[uuid.UUID, tuple[int, int]]:
        rows = Node.unscoped.filter(cluster__cell_id=self.cell_id, present=True).order_by(
            "cluster_id", "name"
        )
        marks = rows.values_list("pk", "facts_version")
        return {pk: (facts, rank) for rank, (pk, facts) in enumerate(marks)}

    def _load(
        self,
        keys: Collection[uuid.UUID],
        marks: dict[uuid.UUID, tuple[int, int]],
        held: _NodeHolds,
        now: datetime,
    ) -> list[em.Node]:
        found: list[em.Node] = []
        for part in key_batches(keys):
            devices = devices_of(Device.unscoped.filter(node__in=part))
            rows = Node.unscoped.filter(pk__in=part)
            for row in rows:
                cards = devices.get(row.pk, [])
                held.check(row, cards)
                self._note_cards(row.pk, cards)
                self.names[str(row.pk)] = row.name
                self._held_until.pop(row.pk, None)
                if row.held_until is not None and is_held(row, now):
                    self._held_until[row.pk] = row.held_until
                (self._short.add if row.cards_unplaced else self._short.discard)(row.pk)
                found.append(engine_node(row, cards, marks[row.pk][1], now))
        return found

    def _note_cards(self, node: uuid.UUID, cards: Iterable[Device]) -> None:
        for known in self._cards.pop(node, ()):
            if self._where.get(known) == node:
                del self._where[known], self.devices[known]
        for card in cards:
            self._cards.setdefault(node, []).append(card.uuid)
            self._where[card.uuid], self.devices[card.uuid] = node, card.pk


class _NodeHolds:
    """The sums of allocations by node and card, to compare with their rows."""

    def __init__(self, held: Iterable[em.Allocation]) -> None:
        self._of_nodes: dict[str, Counter[str]] = {}
        self._of_cards: dict[str, Counter[str]] = {}
        for allocation in held:
            node = self._of_nodes.setdefault(allocation.node, Counter())
            node["cpu"] += allocation.cpu
            node["memory"] += allocation.memory
            for part in allocation.slices:
                card = self._of_cards.setdefault(part.device, Counter())
                card["cores"] += part.cores
                card["memory"] += part.memory
                card["holders"] += 1

    def check(self, node: Node, cards: Iterable[Device]) -> None:
        """Check that the rows of a node and its cards are equal to the sums. Raises: Contradiction."""
        nothing: Counter[str] = Counter()
        of_node = self._of_nodes.get(str(node.pk), nothing)
        if (of_node["cpu"], of_node["memory"]) != (node.cpu_granted, node.memory_granted):
            raise Contradiction(f"node {node.pk} is not held as its tasks say")
        for card in cards:
            own = self._of_cards.get(card.uuid, nothing)
            if (own["cores"], own["memory"], own["holders"]) != (
                card.cores_granted,
                card.memory_granted,
                card.holders,
            ):
                raise Contradiction(f"GPU {card.uuid} is not held as its tasks say")


def unlike_rows(snapshot: engine.Snapshot, moved: Iterable[em.Allocation]) -> list[em.Node]:
    """Return the nodes on which the engine's `exclusive` marks of cards differ from their rows after `moved`.

    By its row a card is exclusive when its only holder has all of its cores; by an allocation, when the whole
    card was requested.
    """
    fleet = snapshot.fleet
    rows: set[int] = set()
    for allocation in moved:
        row = fleet.row.get(allocation.node)
        if row is None:
            continue
        for part in allocation.slices:
            column = fleet.columns[row].get(part.device)
            if column is not None:
                closed = fleet.holders[row, column] == 1 and fleet.cores_free[row, column] <= 0
                if closed != fleet.exclusive[row, column]:
                    rows.add(row)
    return [_as_rows_say(fleet.export_node(row)) for row in sorted(rows)]


def _as_rows_say(node: em.Node) -> em.Node:
    devices = (
        replace(card, exclusive=card.holders == 1 and card.used_cores >= card.cores) for card in node.devices
    )
    return replace(node, devices=tuple(devices))
