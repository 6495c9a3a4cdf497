"""The clusters, flavors and queues about which a cluster's own engine decides."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from clusters.models import ADMITS_ITSELF, Cluster
from foundation.sql.prepared import PreparedQuery
from quotas.models import QueueFlavor


@dataclass(frozen=True, slots=True)
class DelegatedScope:
    """The clusters whose own engines decide, and the queues whose jobs they admit."""

    clusters: frozenset[uuid.UUID] = frozenset()
    queues: frozenset[uuid.UUID] = frozenset()


NOWHERE: Final = DelegatedScope()
_DELEGATING: Final = PreparedQuery(
    lambda cell: Cluster.unscoped.filter(cell_id=cell, backend__in=ADMITS_ITSELF).values_list("pk")
)


def read_delegated(cell_id: uuid.UUID) -> DelegatedScope:
    """Read the delegated clusters and queues of a cell; one query if there are none."""
    clusters = delegating_clusters(cell_id)
    return DelegatedScope(clusters, frozenset(delegated_queues(clusters))) if clusters else NOWHERE


def delegating_clusters(cell_id: uuid.UUID) -> frozenset[uuid.UUID]:
    """Return the clusters of a cell whose own engines admit jobs."""
    return frozenset(pk for (pk,) in _DELEGATING(cell_id))


def delegated_queues(clusters: Set[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    """Return the queues that one of those clusters decides, by id, with the cluster.

    All flavors of such a queue lie in that cluster. The platform's engine decides a queue with other flavors
    too, and the queue cannot use the cluster's flavors: exactly one engine decides about a job.
    """
    if not clusters:
        return {}
    touched = QueueFlavor.unscoped.filter(flavor__cluster__in=clusters).values("queue_id")
    places: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    rows = QueueFlavor.unscoped.filter(queue__in=touched)
    for queue, cluster in rows.values_list("queue_id", "flavor__cluster_id"):
        places[queue].add(cluster)
    return {
        queue: next(iter(found))
        for queue, found in sorted(places.items())
        if len(found) == 1 and found <= clusters
    }
