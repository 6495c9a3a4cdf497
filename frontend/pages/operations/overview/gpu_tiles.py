"""Cards of nodes as tiles: large for a few nodes, one small drawing per node for many.

A tile that is a link with its own drawing costs too much for some thousand cards. From `MANY_NODES` on,
a node is one drawing of a few paths instead, whose meaning is the same: the width of a light column is
what is allocated, its dark part what is used.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.utils.translation import gettext as _

from clusters.selectors.grid import READY, GridCard, GridNode
from frontend.components.capacity import GpuTile, NodeMosaic, NodeTiles
from frontend.pages.operations.cluster_scope import ClusterScope
from frontend.texts import formats
from scheduling.selectors.allocations.holding import LiveSlice
from telemetry.series import CardNow

MANY_NODES: Final = 48
# Of the small drawing: a card's width and height, and the step to the next one, in its own units.
_WIDE, _HIGH, _STEP = 10, 16, 12

Now = Mapping[uuid.UUID, CardNow]
Colors = Mapping[uuid.UUID, str]
Slices = Mapping[uuid.UUID, Sequence[LiveSlice]]


def by_device(slices: Iterable[LiveSlice]) -> dict[uuid.UUID, list[LiveSlice]]:
    """Holds per card, in their order."""
    found: defaultdict[uuid.UUID, list[LiveSlice]] = defaultdict(list)
    for part in slices:
        found[part.device_id].append(part)
    return dict(found)


def node_tiles(
    nodes: Iterable[GridNode], scope: ClusterScope, now: Now, slices: Slices, colors: Colors
) -> list[NodeTiles]:
    """Nodes with a tile per card; each tile leads to its card on the node's page.

    With `colors`, each holder's part of a card has the color of its tenant.
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
    """Nodes as small drawings."""
    return [_mosaic(node, scope.node_url(node.name, node.cluster), now, slices, colors) for node in nodes]


def _mosaic(node: GridNode, url: str, now: Now, slices: Slices, colors: Colors) -> NodeMosaic:
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
        box = f"M{left} 0h{_WIDE}v{_HIGH}h-{_WIDE}z"
        (background if card.healthy else unhealthy).append(box)
        wide = _WIDE * min(1.0, card.cores_granted / max(1, card.cores_capacity))
        cores += card.cores_granted
        others = min(_WIDE - wide, _WIDE * card.cores_foreign / max(1, card.cores_capacity))
        if others > 0:
            foreign.append(f"M{left + wide:.3g} 0h{others:.3g}v{_HIGH}h-{others:.3g}z")
        reading = now.get(card.id)
        begin = float(left)
        for part in slices.get(card.id, ()) if colors else ():
            width = _WIDE * part.cores / max(1, card.cores_capacity)
            owners[colors[part.workspace_id]].append(f"M{begin:.4g} 0h{width:.3g}v{_HIGH}h-{width:.3g}z")
            begin += width
        if wide:
            column = f"M{left} 0h{wide:.3g}v{_HIGH}h-{wide:.3g}z"
            (allocated if reading else unmeasured).append(column)
        if wide and reading:
            high = _HIGH * min(1.0, reading.utilisation_percent / card.cores_granted)
            used.append(f"M{left} {_HIGH}h{wide:.3g}v-{high:.3g}h-{wide:.3g}z")
    return NodeMosaic(
        name=node.name,
        url=url,
        tone="" if node.state == READY else node.state,
        text=_text(node, cores),
        width=max(1, len(node.cards)) * _STEP - (_STEP - _WIDE),
        background="".join(background),
        allocated="".join(allocated),
        used="".join(used),
        unmeasured="".join(unmeasured),
        foreign="".join(foreign),
        unhealthy="".join(unhealthy),
        owners=[(color, "".join(paths)) for color, paths in owners.items()],
    )


def _text(node: GridNode, allocated: int) -> str:
    return _("%(name)s: %(allocated)s of %(total)s GPUs allocated") % {
        "name": node.name,
        "allocated": formats.format_number(allocated / 100, 1).removesuffix(".0"),
        "total": len(node.cards),
    }
