"""The names of topology levels in a job file, and their node labels."""

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
    """Return the node label of a level; a text that names no level is a label itself."""
    return LEVELS.get(level, level)
