"""Free capacity by pool and task shape, its fragmentation, and the unusable part by cause.

Computed from GPUs and GPU memory alone: CPU, memory and the rules of a job may allow less.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Flavor, GpuMode
from clusters.selectors.grid import GridCard, GridNode, cards_left, find_cause, node_grid
from foundation.core.actor import Actor

_WHOLE_SHAPES: Final = (1, 2, 4, 8, 16)
_SLICE_SHAPES: Final = (10, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class ShapeRoom:
    """The tasks of one shape that fit at once: `size` is GPUs of a node, or percent of a GPU in a slice pool.

    `one_rack` is the most of them within one rack.
    """

    size: int
    tasks: int
    one_rack: int


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """The room of one pool. `free` is unallocated compute on healthy GPUs of nodes that take tasks, in
    percent points; `fragmented_percent` of it is of no use to tasks of the largest shape, None if nothing is
    free. `stranded` is unallocated compute that no task can get, in percent points, by its cause.
    """

    flavor: Flavor
    sliced: bool
    shapes: Sequence[ShapeRoom]
    free: int
    fragmented_percent: float | None
    stranded: Mapping[str, int]


def pool_rooms(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> list[PoolRoom]:
    """Return one row per pool with GPUs, by name. Raises: PermissionDenied."""
    by_flavor: defaultdict[uuid.UUID, list[GridNode]] = defaultdict(list)
    for node in node_grid(viewer=viewer, cluster_id=cluster_id):
        if node.flavor_id is not None and node.cards:
            by_flavor[node.flavor_id].append(node)
    flavors = Flavor.unscoped.filter(pk__in=by_flavor).exclude(gpu_mode=GpuMode.MIG).select_related("cluster")
    return [_room(flavor, by_flavor[flavor.pk]) for flavor in flavors.order_by("name", "id")]


def _room(flavor: Flavor, nodes: Sequence[GridNode]) -> PoolRoom:
    sliced = flavor.gpu_mode == GpuMode.SLICE
    open_nodes = [node for node in nodes if not find_cause(node)]
    most = max(len(node.cards) for node in nodes)
    sizes = _SLICE_SHAPES if sliced else [*(size for size in _WHOLE_SHAPES if size < most), most]
    shapes = [_shape(size, open_nodes, sliced=sliced) for size in sizes]
    free = sum(cards_left(card) for node in open_nodes for card in node.cards)
    usable = shapes[-1].tasks * shapes[-1].size * (1 if sliced else 100)
    return PoolRoom(
        flavor,
        sliced,
        shapes,
        free,
        100 * (1 - usable / free) if free else None,
        _stranded(nodes, sliced=sliced),
    )


def _shape(size: int, nodes: Iterable[GridNode], *, sliced: bool) -> ShapeRoom:
    by_rack: Counter[tuple[uuid.UUID, str]] = Counter()
    tasks = 0
    for node in nodes:
        if sliced:
            fits = sum(_slices_left(card, size) for card in node.cards)
        else:
            fits = sum(card.is_free for card in node.cards) // size
        tasks += fits
        by_rack[node.cluster_id, node.rack] += fits
    return ShapeRoom(size, tasks, max(by_rack.values(), default=0))


def _slices_left(card: GridCard, size: int) -> int:
    """Count the slices of `size` percent of compute and of memory that still fit on a card."""
    memory = card.memory_capacity - card.memory_granted
    return min(cards_left(card) // size, max(memory, 0) * 100 // (size * max(card.memory_capacity, 1)))


def _stranded(nodes: Iterable[GridNode], *, sliced: bool) -> dict[str, int]:
    found: Counter[str] = Counter()
    for node in nodes:
        cause = find_cause(node)
        for card in node.cards:
            if not card.healthy:
                found["unhealthy"] += max(card.cores_capacity - card.cores_granted, 0)
            elif cause:
                found[cause] += cards_left(card)
            elif not sliced and not card.is_free:
                found["partly-allocated"] += cards_left(card)
    return {cause: points for cause, points in found.items() if points}
