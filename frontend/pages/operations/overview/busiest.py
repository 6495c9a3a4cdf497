"""The nodes whose GPUs have the highest utilization."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.selectors.grid import GridNode
from frontend.pages.operations.cluster_scope import ClusterScope
from telemetry.series import CardNow

TOP: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyNode:
    """One node: the mean utilization of its measured GPUs, and the allocated part of all its GPUs, in
    percent.
    """

    name: str
    url: str
    utilization: float
    allocated: float


def busiest_nodes(
    nodes: Sequence[GridNode], now: Mapping[uuid.UUID, CardNow], scope: ClusterScope
) -> list[BusyNode]:
    """Return the nodes with the highest utilization; those without a reading are left out."""
    found = []
    for node in nodes:
        known = [now[card.id].utilisation_percent for card in node.cards if card.id in now]
        capacity = sum(card.cores_capacity for card in node.cards)
        if known and capacity:
            held = sum(card.cores_granted for card in node.cards)
            found.append(
                BusyNode(
                    name=node.name,
                    url=scope.node_url(node.name, node.cluster),
                    utilization=sum(known) / len(known),
                    allocated=100 * held / capacity,
                )
            )
    return sorted(found, key=lambda one: (-one.utilization, one.name, one.url))[:TOP]
