"""This module lists the clusters in which the flavors of a queue have nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduling.engine.model import Flavor, Queue

CLUSTERS: Final = "clusters"
"""Among the figures of a refusal: the clusters that were tried, where no single one holds the whole job."""


def clusters_of(flavors: Mapping[str, Flavor], names: Iterable[str]) -> tuple[str, ...]:
    """Return the clusters in which flavors have nodes, each once, in their order."""
    found = (flavors[name] for name in names if name in flavors)
    return tuple(dict.fromkeys(flavor.cluster for flavor in found if flavor.placed))


def queue_clusters(flavors: Mapping[str, Flavor], queue: Queue) -> tuple[str, ...]:
    """Return the clusters in which a queue has flavors, in the order in which it names them."""
    return clusters_of(flavors, (name for group in queue.effective_groups for name in group.flavors))
