"""All nodes with their cards, as plain values, for a page that draws every card.

Two queries and no model instances, because an overview of thousands of cards is read every few seconds.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.models import Device, Node
from foundation.core import clock
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission

READY = "ready"
DRAINING = "draining"
CORDONED = "cordoned"
NOT_READY = "not-ready"
CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class GridCard:
    """One card. Cores in percent points and memory in MiB; capacity includes over-commit.

    `*_foreign` is what pods of other owners hold.
    """

    id: uuid.UUID
    index: int
    healthy: bool
    cores_capacity: int
    cores_granted: int
    memory_capacity: int
    memory_granted: int
    holders: int
    cores_foreign: int
    foreign_holders: int
    memory_mib: int
    """Physical memory, without over-commit."""

    @property
    def is_free(self) -> bool:
        """Return whether the card is healthy and no part of it is held."""
        return self.healthy and not self.holders and not self.foreign_holders


@dataclass(frozen=True, slots=True)
class GridNode:
    """One present node, with its cards by index."""

    id: uuid.UUID
    cluster_id: uuid.UUID
    cluster: str
    name: str
    flavor_id: uuid.UUID | None
    flavor: str
    model: str
    rack: str
    ready: bool
    cordoned: bool
    closed: bool
    cpu_full: bool
    cards: Sequence[GridCard]

    @property
    def state(self) -> str:
        return node_state(self.ready, self.cordoned, self.closed)


@dataclass(frozen=True, slots=True)
class Stranded:
    """Free compute that can't be used: wholly free cards on nodes that take no tasks, and remainders.

    `cards` are healthy, wholly free and unusable; the node counts give the causes, each node once under its
    most fundamental cause. `fragment_cores` (percent points) is what is left on partly allocated cards, on
    `fragment_nodes` nodes.
    """

    cards: int
    not_ready_nodes: int
    cordoned_nodes: int
    closed_nodes: int
    cpu_full_nodes: int
    fragment_cores: int
    fragment_nodes: int


def node_state(ready: bool, cordoned: bool, closed: bool, *, draining: bool = False) -> str:
    """Return the state of a node, by its most fundamental cause. A `closed` node gets no new tasks for
    another reason than a cordon; from a `draining` node jobs are still being evicted."""
    if not ready:
        return NOT_READY
    if draining:
        return DRAINING
    if cordoned:
        return CORDONED
    return CLOSED if closed else READY


def node_grid(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> list[GridNode]:
    """Return the present nodes, by cluster and name; of all clusters unless one is named.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    nodes = Node.unscoped.filter(present=True)
    devices = Device.unscoped.filter(node__present=True)
    if cluster_id is not None:
        nodes = nodes.filter(cluster_id=cluster_id)
        devices = devices.filter(node__cluster_id=cluster_id)
    cards = _cards_by_node(devices.order_by("index", "id").values_list("node_id", *_CARD_COLUMNS))
    rows = nodes.order_by("cluster__name", "name", "id").values_list(*_NODE_COLUMNS)
    now = clock.now()
    return [_node(row, cards.get(row[0], ()), now) for row in rows]


_CARD_COLUMNS = (
    "id",
    "index",
    "healthy",
    "cores_capacity",
    "cores_granted",
    "memory_capacity",
    "memory_granted",
    "holders",
    "cores_foreign",
    "foreign_holders",
    "memory_mib",
)
_NODE_COLUMNS = (
    "id",
    "cluster_id",
    "cluster__name",
    "name",
    "flavor_id",
    "flavor__name",
    "flavor__card_model",
    "rack",
    "ready",
    "cordoned",
    "closed",
    "held_until",
    "cpu_granted",
    "cpu_foreign",
    "cpu_millicores",
)


def _cards_by_node(rows: Iterable[tuple[Any, ...]]) -> dict[uuid.UUID, list[GridCard]]:
    found: defaultdict[uuid.UUID, list[GridCard]] = defaultdict(list)
    for node_id, *values in rows:
        found[node_id].append(GridCard(*values))
    return dict(found)


def _node(row: tuple[Any, ...], cards: Sequence[GridCard], now: datetime) -> GridNode:
    pk, cluster_id, cluster, name, flavor_id, flavor, model, rack, ready, cordoned, *more = row
    closed, held_until, cpu_granted, cpu_foreign, cpu_millicores = more
    return GridNode(
        id=pk,
        cluster_id=cluster_id,
        cluster=cluster,
        name=name,
        flavor_id=flavor_id,
        flavor=flavor or "",
        model=model or "",
        rack=rack,
        ready=ready,
        cordoned=cordoned,
        closed=closed or (held_until is not None and held_until > now),
        cpu_full=cpu_granted + cpu_foreign >= cpu_millicores,
        cards=tuple(cards),
    )


def count_stranded(nodes: Iterable[GridNode]) -> Stranded:
    """Count the free compute that can't be used, and the nodes by cause."""
    causes: Counter[str] = Counter()
    cards = fragment_cores = fragment_nodes = 0
    for node in nodes:
        free = sum(card.is_free for card in node.cards)
        cause = find_cause(node)
        if cause:
            cards += free
            causes[cause] += bool(free)
            continue
        left = sum(cards_left(card) for card in node.cards if cards_left(card) and not card.is_free)
        fragment_cores += left
        fragment_nodes += left > 0
    return Stranded(
        cards=cards,
        not_ready_nodes=causes[NOT_READY],
        cordoned_nodes=causes[CORDONED],
        closed_nodes=causes[CLOSED],
        cpu_full_nodes=causes["cpu-full"],
        fragment_cores=fragment_cores,
        fragment_nodes=fragment_nodes,
    )


def find_cause(node: GridNode) -> str:
    """Return why a node takes no task: its state, or exhausted CPU; "" for a node that takes tasks."""
    if node.state != READY:
        return node.state
    return "cpu-full" if node.cpu_full else ""


def cards_left(card: GridCard) -> int:
    """Return the percent points of a card that are free, regardless of the state of its node."""
    return max(card.cores_capacity - card.cores_granted - card.cores_foreign, 0) if card.healthy else 0
