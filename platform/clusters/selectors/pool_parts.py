"""The size of a pool in one resource, and the parts of it that no job of the platform can get now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Greatest, Least

from clusters.models import Device, Flavor, GpuMode, Node
from foundation.core.quantities import WHOLE_CARD, Resource

_OF_NODES: Final = {
    Resource.CPU: ("cpu_millicores", "cpu_granted", "cpu_foreign"),
    Resource.MEMORY: ("memory_mib", "memory_granted", "memory_foreign"),
}
_OF_CARDS: Final = {
    Resource.GPU_CORES: ("cores_capacity", "cores_granted", "cores_foreign"),
    Resource.GPU_MEMORY: ("memory_capacity", "memory_granted", "memory_foreign"),
}


@dataclass(frozen=True, slots=True)
class PoolParts:
    """Amounts of a pool in the resource's unit.

    `unmanaged` is what pods hold that the platform does not manage, `unavailable` what is free but cannot be
    allocated: on unhealthy GPUs, and on nodes that are not ready, cordoned or managed by another platform.
    """

    total: int
    unmanaged: int
    unavailable: int


def read_pool_parts(flavor: Flavor, resource: Resource) -> PoolParts:
    """Return the parts of a pool, in one query. The number of GPUs is the sum over the nodes."""
    if columns := _OF_NODES.get(resource):
        blocked = Q(ready=False) | Q(cordoned=True) | Q(closed=True)
        return _sum_parts(Node.unscoped.filter(flavor=flavor, present=True), columns, blocked)
    cards = Device.unscoped.filter(node__flavor=flavor, node__present=True)
    blocked = Q(healthy=False) | Q(node__ready=False) | Q(node__cordoned=True) | Q(node__closed=True)
    if resource is Resource.GPU_CARDS or flavor.gpu_mode == GpuMode.WHOLE:
        return _count_parts(cards, blocked, _charge_of_card(flavor, resource))
    return _sum_parts(cards, _OF_CARDS[resource], blocked)


def _charge_of_card(flavor: Flavor, resource: Resource) -> int:
    """Return the charge of a whole GPU: its memory is the pool's, whatever the GPU's own."""
    charges = {Resource.GPU_CORES: int(WHOLE_CARD), Resource.GPU_MEMORY: flavor.card_memory_mib}
    return charges.get(resource, 1)


def _count_parts(cards: QuerySet[Device], blocked: Q, charge: int) -> PoolParts:
    found = cards.aggregate(
        total=Count("pk"),
        unmanaged=Count("pk", filter=Q(holders=0, foreign_holders__gt=0)),
        unavailable=Count("pk", filter=Q(holders=0, foreign_holders=0) & blocked),
    )
    return PoolParts(**{name: count * charge for name, count in found.items()})


def _sum_parts(
    rows: QuerySet[Device] | QuerySet[Node], columns: tuple[str, str, str], blocked: Q
) -> PoolParts:
    capacity, allocated, foreign = columns
    spare = Greatest(F(capacity) - F(allocated), 0)
    # What other owners hold comes from the cluster alone, and may exceed the rest.
    theirs = Least(F(foreign), spare)
    found = rows.aggregate(
        total=Coalesce(Sum(capacity), 0),
        unmanaged=Coalesce(Sum(theirs), 0),
        unavailable=Coalesce(Sum(spare - theirs, filter=blocked), 0),
    )
    return PoolParts(**found)
