"""The words of a job file for nearness, and the node labels that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.gpu.nvidia import CLIQUE_LABEL

LEVELS: Final[Mapping[str, str]] = {
    "clique": CLIQUE_LABEL,
    "node": "kubernetes.io/hostname",
    "rack": "allotment.io/rack",
    "zone": "topology.kubernetes.io/zone",
}


def level_label(level: str) -> str:
    """The node label of a level; anything that is no word for one is a label itself."""
    return LEVELS.get(level, level)
