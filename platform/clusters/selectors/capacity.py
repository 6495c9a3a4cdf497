"""Free capacity per flavor: the largest job that could start now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Exists, OuterRef

from clusters.models import Device, Flavor, Node
from clusters.services.node_life import is_node_schedulable
from foundation.core import clock
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission

SLICE_CORES: Final = 30
_NODE_COLUMNS: Final = (
    *("cluster", "flavor", "rack", "ready", "cordoned", "cpu_granted", "cpu_foreign", "cpu_millicores"),
    *("held_until", "closed"),
)


class _Card(NamedTuple):
    node_id: uuid.UUID
    healthy: bool
    holders: int
    cores_capacity: int
    cores_granted: int
    memory_capacity: int
    memory_granted: int
    cores_foreign: int
    foreign_holders: int


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """Cards of one flavor. `free` are wholly free and usable; `stranded` are free but not usable.

    `cards_allocated` is in hundredths of a card. `one_node` and `one_rack` are the most wholly free
    cards together in one place; `slices` counts how many slices of 30 % cores would still fit. `foreign`
    are the cards of which pods of others hold a part or all, `closed` those of nodes that get nothing new.
    """

    flavor: Flavor
    nodes: int
    cards: int
    unhealthy: int
    cards_allocated: int
    memory_mib: int
    memory_allocated_mib: int
    free: int
    stranded: int
    one_node: int
    one_rack: int
    slices: int
    foreign: int
    closed: int


def capacity_now(*, viewer: Actor) -> list[FlavorCapacity]:
    """One line per flavor, by name.

    Raises: PermissionDenied for anybody without a view of the clusters.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    # Without labels and taints, which would be decoded.
    rows = Node.unscoped.filter(present=True, flavor__isnull=False).only(*_NODE_COLUMNS)
    nodes = {node.pk: node for node in rows}
    cards: defaultdict[uuid.UUID | None, list[_Card]] = defaultdict(list)
    present = Device.unscoped.filter(node__present=True, node__flavor__isnull=False)
    for card in map(_Card._make, present.values_list(*_Card._fields).iterator()):
        if card.node_id in nodes:
            cards[nodes[card.node_id].flavor_id].append(card)
    flavors = Flavor.unscoped.order_by("name", "id")
    now = clock.now()
    return [_capacity(flavor, cards[flavor.pk], nodes, now) for flavor in flavors]


def list_card_pools(*, viewer: Actor) -> list[Flavor]:
    """The flavors that have cards on present nodes, by name, with their cluster. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    cards = Device.unscoped.filter(node__flavor=OuterRef("pk"), node__present=True)
    return list(Flavor.unscoped.filter(Exists(cards)).select_related("cluster").order_by("name", "id"))


def _is_open(node: Node, now: datetime) -> bool:
    return node.ready and is_node_schedulable(node, now)


def _capacity(
    flavor: Flavor, cards: Sequence[_Card], nodes: Mapping[uuid.UUID, Node], now: datetime
) -> FlavorCapacity:
    own = {card.node_id for card in cards}
    closed = {pk for pk in own if not _is_open(nodes[pk], now)}
    full = {pk for pk in own if nodes[pk].cpu_granted + nodes[pk].cpu_foreign >= nodes[pk].cpu_millicores}
    usable = own - closed - full
    empty = [card for card in cards if card.healthy and not card.holders and not card.foreign_holders]
    free = [card for card in empty if card.node_id in usable]
    by_node = Counter(card.node_id for card in free)
    by_rack = Counter((nodes[card.node_id].cluster_id, nodes[card.node_id].rack) for card in free)
    return FlavorCapacity(
        flavor=flavor,
        nodes=len(own),
        cards=len(cards),
        unhealthy=sum(not card.healthy for card in cards),
        cards_allocated=sum(card.cores_granted for card in cards),
        memory_mib=sum(card.memory_capacity for card in cards),
        memory_allocated_mib=sum(card.memory_granted for card in cards),
        free=len(free),
        stranded=len(empty) - len(free),
        one_node=max(by_node.values(), default=0),
        one_rack=max(by_rack.values(), default=0),
        slices=sum(_slices(card) for card in cards if card.node_id in usable)
        if flavor.gpu_mode == "slice"
        else 0,
        foreign=sum(card.foreign_holders > 0 for card in cards),
        closed=sum(card.node_id in closed for card in cards),
    )


def _slices(card: _Card) -> int:
    if not card.healthy:
        return 0
    left = card.cores_capacity - card.cores_granted - card.cores_foreign
    return max(left, 0) // SLICE_CORES
