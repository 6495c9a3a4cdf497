"""Free capacity per flavor: the largest job that could start now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import BooleanField, Count, Exists, ExpressionWrapper, F, OuterRef, Q, Sum
from django.db.models.functions import Greatest

from clusters.models import Device, Flavor, GpuMode
from clusters.services.node_life import schedulable_nodes
from foundation.core import clock
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission

SLICE_CORES: Final = 30


class _NodeCards(NamedTuple):
    """Sums of the cards of one node; `empty` counts healthy cards of which no part is held.

    `is_open` means ready and schedulable, `is_full` that all CPU is allocated. `slices` counts the slices of
    `SLICE_CORES` that still fit on healthy cards; None or 0 for flavors without slices.
    """

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    cluster_id: uuid.UUID
    rack: str
    is_open: bool
    is_full: bool
    cards: int
    unhealthy: int
    cores_granted: int
    memory_capacity: int
    memory_granted: int
    empty: int
    foreign: int
    slices: int | None


_FITTING: Final = Greatest(F("cores_capacity") - F("cores_granted") - F("cores_foreign"), 0) / SLICE_CORES
_SUMS: Final = {
    "cards": Count("pk"),
    "unhealthy": Count("pk", filter=Q(healthy=False)),
    "allocated": Sum("cores_granted"),
    "memory": Sum("memory_capacity"),
    "memory_held": Sum("memory_granted"),
    "empty": Count("pk", filter=Q(healthy=True, holders=0, foreign_holders=0)),
    "foreign": Count("pk", filter=Q(foreign_holders__gt=0)),
    "fitting": Sum(_FITTING, filter=Q(healthy=True, node__flavor__gpu_mode=GpuMode.SLICE)),
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
    cards: defaultdict[uuid.UUID, list[_NodeCards]] = defaultdict(list)
    for of in _read_nodes(clock.now()):
        cards[of.flavor_id].append(of)
    return [_capacity(flavor, cards[flavor.pk]) for flavor in Flavor.unscoped.order_by("name", "id")]


def list_card_pools(*, viewer: Actor) -> list[Flavor]:
    """Return the flavors with cards on present nodes by name, with cluster. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    cards = Device.unscoped.filter(node__flavor=OuterRef("pk"), node__present=True)
    return list(Flavor.unscoped.filter(Exists(cards)).select_related("cluster").order_by("name", "id"))


def _read_nodes(now: datetime) -> Iterator[_NodeCards]:
    """Yield the sums of the present nodes that have cards and a flavor."""
    present = Device.unscoped.filter(node__present=True, node__flavor__isnull=False).order_by()
    is_open = schedulable_nodes(now, "node__") & Q(node__ready=True)
    is_full = Q(node__cpu_millicores__lte=F("node__cpu_granted") + F("node__cpu_foreign"))
    of_node = present.values_list(
        *("node_id", "node__flavor_id", "node__cluster_id", "node__rack"),
        *(ExpressionWrapper(each, BooleanField()) for each in (is_open, is_full)),
    )
    return map(_NodeCards._make, of_node.annotate(**_SUMS))


def _capacity(flavor: Flavor, cards: Sequence[_NodeCards]) -> FlavorCapacity:
    usable = [of for of in cards if of.is_open and not of.is_full]
    by_rack: Counter[tuple[uuid.UUID, str]] = Counter()
    for of in usable:
        by_rack[of.cluster_id, of.rack] += of.empty
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
        slices=sum(of.slices or 0 for of in usable),
        foreign=sum(of.foreign for of in cards),
        closed=sum(of.cards for of in cards if not of.is_open),
    )
