"""GPUs of nodes as tiles: large for a few nodes, one small drawing per node for many.

A tile that is a link with its own drawing costs too much for some thousand GPUs. From `MANY_NODES` on, a node
is one drawing of a few paths with the same meaning: the width of a light column is the allocated part, its
dark part the used part.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from django.utils.translation import gettext as _

from clusters.selectors.grid import READY, GridCard, GridNode
from frontend.components.capacity import GpuTile, NodeMosaic, NodeTiles
from frontend.pages.operations.cluster_scope import ClusterScope
from frontend.texts import formats
from scheduling.selectors.allocations.holding import LiveSlice
from telemetry.series import CardNow

MANY_NODES: Final = 48
# Units of the small drawing: a GPU's width and height, and the distance to the next one.
_WIDE, _HIGH, _STEP = 10, 16, 12

Now = Mapping[uuid.UUID, CardNow]
Colors = Mapping[uuid.UUID, str]
Slices = Mapping[uuid.UUID, Sequence[LiveSlice]]


def by_device(slices: Iterable[LiveSlice]) -> dict[uuid.UUID, list[LiveSlice]]:
    """Return the allocations by GPU, in their order."""
    found: defaultdict[uuid.UUID, list[LiveSlice]] = defaultdict(list)
    for part in slices:
        found[part.device_id].append(part)
    return dict(found)


def node_tiles(
    nodes: Iterable[GridNode], scope: ClusterScope, now: Now, slices: Slices, colors: Colors
) -> list[NodeTiles]:
    """Return nodes with a tile per GPU; each tile links to its GPU on the node's page.

    With `colors`, each holder's part of a GPU has the color of its tenant.
    """
    return [_tiles(node, scope.node_url(node.name, node.cluster), now, slices, colors) for node in nodes]


def _tiles(node: GridNode, url: str, now: Now, slices: Slices, colors: Colors) -> NodeTiles:
    return NodeTiles(
        name=node.name,
        note=" · ".join(part for part in (node.model, node.rack) if part),
        url=url,
        state=node.state,
        gpus=[_tile(card, url, now.get(card.id), slices.get(card.id, ()), colors) for card in node.cards],
    )


def _tile(
    card: GridCard, url: str, now: CardNow | None, holds: Sequence[LiveSlice], colors: Colors
) -> GpuTile:
    share = 100 / max(1, card.cores_capacity)
    return GpuTile(
        name=f"GPU {card.index}",
        allocated=100 * card.cores_granted / max(1, card.cores_capacity),
        used=round(now.utilisation_percent) if now else None,
        foreign=100 * card.cores_foreign / max(1, card.cores_capacity),
        slices=[part.cores for part in holds if not part.exclusive],
        healthy=card.healthy,
        url=f"{url}#gpu-{card.index}",
        holder=", ".join(dict.fromkeys(part.job for part in holds)),
        owners=[
            (share * part.cores, colors[part.workspace_id], part.workspace)
            for part in holds
            if part.workspace_id in colors
        ],
    )


def node_mosaics(
    nodes: Iterable[GridNode], scope: ClusterScope, now: Now, slices: Slices, colors: Colors
) -> list[NodeMosaic]:
    """Return nodes as small drawings."""
    words = _("%(name)s: %(allocated)s of %(total)s GPUs allocated")
    return [
        _mosaic(node, scope.node_url(node.name, node.cluster), words, now, slices, colors) for node in nodes
    ]


@cache
def _box(place: int) -> str:
    """Return the path of a whole GPU; cached, because it is the same at the same place of all nodes."""
    return f"M{place * _STEP} 0h{_WIDE}v{_HIGH}h-{_WIDE}z"


def _column(left: float, wide: float) -> str:
    return f"M{left:.5g} 0h{wide:.3g}v{_HIGH}h-{wide:.3g}z"


def _mosaic(node: GridNode, url: str, words: str, now: Now, slices: Slices, colors: Colors) -> NodeMosaic:
    background: list[str] = []
    allocated: list[str] = []
    used: list[str] = []
    unmeasured: list[str] = []
    foreign: list[str] = []
    unhealthy: list[str] = []
    owners: defaultdict[str, list[str]] = defaultdict(list)
    cores = 0
    for place, card in enumerate(node.cards):
        left = place * _STEP
        (background if card.healthy else unhealthy).append(_box(place))
        capacity = card.cores_capacity or 1
        wide = _WIDE * min(1.0, card.cores_granted / capacity)
        cores += card.cores_granted
        others = min(_WIDE - wide, _WIDE * card.cores_foreign / capacity) if card.cores_foreign else 0
        if others > 0:
            foreign.append(_column(left + wide, others))
        begin = float(left)
        for part in slices.get(card.id, ()) if colors else ():
            width = _WIDE * part.cores / capacity
            owners[colors[part.workspace_id]].append(_column(begin, width))
            begin += width
        if wide:
            reading = now.get(card.id) if now else None
            column = _box(place) if wide == _WIDE else _column(left, wide)
            (allocated if reading else unmeasured).append(column)
            if reading:
                high = _HIGH * min(1.0, reading.utilisation_percent / card.cores_granted)
                used.append(f"M{left} {_HIGH}h{wide:.3g}v-{high:.3g}h-{wide:.3g}z")
    return NodeMosaic(
        name=node.name,
        url=url,
        tone="" if node.state == READY else node.state,
        text=words % {"name": node.name, "allocated": formats.format_gpus(cores), "total": len(node.cards)},
        width=max(1, len(node.cards)) * _STEP - (_STEP - _WIDE),
        background="".join(background),
        allocated="".join(allocated),
        used="".join(used),
        unmeasured="".join(unmeasured),
        foreign="".join(foreign),
        unhealthy="".join(unhealthy),
        owners=[(color, "".join(paths)) for color, paths in owners.items()],
    )
