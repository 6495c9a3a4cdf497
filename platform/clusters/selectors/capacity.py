"""Free capacity per flavor: the largest job that could start now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from clusters.models import Device, Flavor, GpuMode, Node
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


class _NodeCards(NamedTuple):
    """Sums of the cards of one node; `empty` counts healthy cards of which no part is held."""

    node_id: uuid.UUID
    cards: int
    unhealthy: int
    cores_granted: int
    memory_capacity: int
    memory_granted: int
    empty: int
    foreign: int


_SUMS: Final = {
    "cards": Count("pk"),
    "unhealthy": Count("pk", filter=Q(healthy=False)),
    "allocated": Sum("cores_granted"),
    "memory": Sum("memory_capacity"),
    "memory_held": Sum("memory_granted"),
    "empty": Count("pk", filter=Q(healthy=True, holders=0, foreign_holders=0)),
    "foreign": Count("pk", filter=Q(foreign_holders__gt=0)),
}


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """Cards of one flavor. `free` are wholly free and usable; `stranded` are free but not usable.

    `cards_allocated` is in hundredths of a card. `one_node` and `one_rack` are the most wholly free cards on
    one node and in one rack; `slices` counts how many slices of 30 % cores would still fit. `foreign` are the
    cards that pods of other owners hold in part or whole, `closed` those of nodes without new tasks.
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
    """Return one row per flavor, by name.

    Raises: PermissionDenied without the permission to view clusters.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    # Without labels and taints, whose decoding takes time.
    rows = Node.unscoped.filter(present=True, flavor__isnull=False).only(*_NODE_COLUMNS)
    nodes = {node.pk: node for node in rows}
    present = Device.unscoped.filter(node__present=True, node__flavor__isnull=False).order_by()
    cards: defaultdict[uuid.UUID | None, list[_NodeCards]] = defaultdict(list)
    for of in map(_NodeCards._make, present.values_list("node_id").annotate(**_SUMS)):
        if of.node_id in nodes:
            cards[nodes[of.node_id].flavor_id].append(of)
    slices = _count_slices(present.filter(node__flavor__gpu_mode=GpuMode.SLICE, healthy=True))
    flavors = Flavor.unscoped.order_by("name", "id")
    now = clock.now()
    return [_capacity(flavor, cards[flavor.pk], slices, nodes, now) for flavor in flavors]


def list_card_pools(*, viewer: Actor) -> list[Flavor]:
    """Return the flavors with cards on present nodes by name, with cluster. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    cards = Device.unscoped.filter(node__flavor=OuterRef("pk"), node__present=True)
    return list(Flavor.unscoped.filter(Exists(cards)).select_related("cluster").order_by("name", "id"))


def _is_open(node: Node, now: datetime) -> bool:
    return node.ready and is_node_schedulable(node, now)


def _capacity(
    flavor: Flavor,
    cards: Sequence[_NodeCards],
    slices: Mapping[uuid.UUID, int],
    nodes: Mapping[uuid.UUID, Node],
    now: datetime,
) -> FlavorCapacity:
    closed = {of.node_id for of in cards if not _is_open(nodes[of.node_id], now)}
    usable = [of for of in cards if of.node_id not in closed and not _is_full(nodes[of.node_id])]
    by_rack: Counter[tuple[uuid.UUID, str]] = Counter()
    for of in usable:
        node = nodes[of.node_id]
        by_rack[node.cluster_id, node.rack] += of.empty
    free = sum(of.empty for of in usable)
    return FlavorCapacity(
        flavor=flavor,
        nodes=len(cards),
        cards=sum(of.cards for of in cards),
        unhealthy=sum(of.unhealthy for of in cards),
        cards_allocated=sum(of.cores_granted for of in cards),
        memory_mib=sum(of.memory_capacity for of in cards),
        memory_allocated_mib=sum(of.memory_granted for of in cards),
        free=free,
        stranded=sum(of.empty for of in cards) - free,
        one_node=max((of.empty for of in usable), default=0),
        one_rack=max(by_rack.values(), default=0),
        slices=sum(slices.get(of.node_id, 0) for of in usable),
        foreign=sum(of.foreign for of in cards),
        closed=sum(of.cards for of in cards if of.node_id in closed),
    )


def _is_full(node: Node) -> bool:
    return node.cpu_granted + node.cpu_foreign >= node.cpu_millicores


def _count_slices(cards: QuerySet[Device]) -> Counter[uuid.UUID]:
    """Count by node the slices that still fit on these cards."""
    found: Counter[uuid.UUID] = Counter()
    for node, *cores in cards.values_list("node_id", "cores_capacity", "cores_granted", "cores_foreign"):
        capacity, allocated, foreign = cores
        found[node] += max(capacity - allocated - foreign, 0) // SLICE_CORES
    return found
