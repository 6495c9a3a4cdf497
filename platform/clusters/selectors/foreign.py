"""Reads the pods of other owners."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count

from clusters.models import Device, ForeignPod, Node
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class ForeignHolding:
    """The number of cards that pods of one origin hold wholly or in part, and by namespace, the most
    first.
    """

    origin: str
    cards: int
    namespaces: Mapping[str, int]


def foreign_holdings(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> list[ForeignHolding]:
    """Return the cards held without an allocation here, by origin; of all clusters unless one is named.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    pods = ForeignPod.unscoped.exclude(cards={}, shares=[])
    if cluster_id is not None:
        pods = pods.filter(cluster_id=cluster_id)
    whole: defaultdict[str, Counter[str]] = defaultdict(Counter)
    parts: defaultdict[tuple[str, str], set[tuple[uuid.UUID, str]]] = defaultdict(set)
    rows = pods.values_list("origin", "namespace", "cluster_id", "cards", "shares")
    for origin, namespace, cluster, cards, shares in rows.iterator():
        whole[origin][namespace] += sum(cards.values())
        parts[origin, namespace].update((cluster, share[0]) for share in shares)
    for (origin, namespace), devices in parts.items():
        whole[origin][namespace] += len(devices)
    found = [
        ForeignHolding(origin, counts.total(), dict(counts.most_common())) for origin, counts in whole.items()
    ]
    return sorted((holding for holding in found if holding.cards), key=lambda holding: holding.origin)


def foreign_cards_by_flavor(cell_id: uuid.UUID) -> dict[uuid.UUID, int]:
    """Count the cards of a cell that foreign pods hold wholly or in part, by flavor."""
    held = Device.unscoped.filter(
        foreign_holders__gt=0, node__present=True, node__flavor__isnull=False, node__cluster__cell=cell_id
    )
    return dict(held.order_by().values_list("node__flavor").annotate(Count("id")))


def foreign_on_node(*, viewer: Actor, node: Node) -> list[ForeignPod]:
    """Return the pods of other owners on a node: those with cards first, then by namespace and name.

    Raises: PermissionDenied.
    """
    return foreign_on_nodes(viewer=viewer, nodes=[node]).get(node.pk, [])


def foreign_on_nodes(*, viewer: Actor, nodes: Sequence[Node]) -> dict[uuid.UUID, list[ForeignPod]]:
    """Return the pods of other owners on nodes, by node id, in one query; nodes without any are absent.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    by_place = {(node.cluster_id, node.name): node.pk for node in nodes}
    found: defaultdict[uuid.UUID, list[ForeignPod]] = defaultdict(list)
    rows = ForeignPod.unscoped.filter(
        cluster__in={cluster for cluster, _name in by_place}, node_name__in={name for _, name in by_place}
    )
    for pod in sorted(
        rows, key=lambda pod: (not (pod.cards or pod.shares), pod.standing, pod.namespace, pod.name)
    ):
        if (node_id := by_place.get((pod.cluster_id, pod.node_name))) is not None:
            found[node_id].append(pod)
    return dict(found)
