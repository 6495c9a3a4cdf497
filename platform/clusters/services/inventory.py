"""Stores nodes and cards as the cluster reports them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace

from django.db import transaction

from clusters.backends.base import Inventory, NodeFact, NodeObservation
from clusters.models import Cell, Cluster, Flavor, Node, NodeEvent
from clusters.services.cards import cards_upsert
from clusters.services.foreign_sums import foreign_settle
from clusters.services.node_cordon import find_cordons
from clusters.services.node_life import node_note, readiness_fields
from clusters.services.node_marks import nodes_changed
from foundation.core import clock
from foundation.messaging import outbox


def inventory_sync(*, cluster: Cluster, inventory: Inventory) -> int:
    """Update the rows from a complete inventory; missing nodes are marked absent. Return the node count."""
    now = clock.now()
    observations = [NodeObservation(fact.name, fact, now) for fact in inventory.nodes]
    present = {fact.name for fact in inventory.nodes}
    removed = Node.unscoped.filter(cluster=cluster, present=True).exclude(name__in=present)
    observations += [NodeObservation(name, None, now) for name in removed.values_list("name", flat=True)]
    nodes_observe(cluster=cluster, observations=observations)
    return len(inventory.nodes)


@transaction.atomic
def nodes_observe(*, cluster: Cluster, observations: Iterable[NodeObservation]) -> None:
    """Apply observations of nodes; a change of a fact that the engine reads requests a cycle."""
    # In the lock order of an admission: the cell, then nodes by key, then cards.
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    flavors = list(Flavor.unscoped.filter(cluster=cluster).order_by("name"))
    rows = Node.unscoped.select_for_update(no_key=True).filter(cluster=cluster).order_by("pk")
    known = {node.name: node for node in rows.prefetch_related("devices")}
    cordons = find_cordons(cluster)
    changed: set[str] = set()
    for seen in sorted(observations, key=lambda item: (item.name, item.at)):
        node = known.get(seen.name)
        if seen.fact is None:
            moved = node is not None and _leave(node)
            cordons.note_left(node)
        else:
            fact = replace(seen.fact, cordoned=cordons.apply_observation(node, seen.fact, seen.at))
            known[seen.name], moved = _upsert(cluster, node, fact, seen, flavors)
        if moved:
            changed.add(seen.name)
    if changed:
        foreign_settle(cluster_id=cluster.pk, names=changed)
        nodes_changed(Node.unscoped.filter(cluster=cluster, name__in=changed))
        outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)


def _leave(node: Node) -> bool:
    now = clock.now()
    rows = Node.unscoped.filter(pk=node.pk, present=True)
    left = rows.update(present=False, ready=False, not_ready_since=now)
    if left:
        node.present = node.ready = False
        NodeEvent.unscoped.create(node=node, at=now, code="left")
    return bool(left)


def _facts(fact: NodeFact) -> dict[str, object]:
    return {
        "labels": dict(fact.labels),
        "taints": [dict(taint) for taint in fact.taints],
        "zone": fact.labels.get("topology.kubernetes.io/zone", ""),
        "rack": fact.labels.get("allotment.io/rack", ""),
        "ready": fact.ready,
        "cordoned": fact.cordoned,
        "pressure": list(fact.pressure),
        "present": True,
        "cpu_millicores": fact.cpu_millicores,
        "memory_mib": fact.memory_mib,
        "pods": fact.pods,
    }


def _upsert(
    cluster: Cluster,
    node: Node | None,
    fact: NodeFact,
    seen: NodeObservation,
    flavors: Iterable[Flavor],
) -> tuple[Node, bool]:
    facts = _facts(fact) | {"flavor_id": flavor_of(fact.labels, flavors)}
    facts |= readiness_fields(node, fact.ready, seen.at)
    if node is None:
        node = Node.unscoped.create(cluster=cluster, name=fact.name, observed_at=seen.at, **facts)
        node_note(node, {}, at=seen.at)
        cards_upsert(node, {}, fact.devices, at=seen.at)
        return node, True
    before = {name: getattr(node, name) for name in ("held_until", *facts)}
    moved = any(before[name] != value for name, value in facts.items())
    if moved:
        Node.unscoped.filter(pk=node.pk).update(**facts, observed_at=seen.at)
        for name, value in facts.items():
            setattr(node, name, value)
        node_note(node, before, at=seen.at)
    known = {device.uuid: device for device in node.devices.all()}
    return node, cards_upsert(node, known, fact.devices, at=seen.at) or moved


def flavor_of(labels: Mapping[str, str], flavors: Iterable[Flavor]) -> uuid.UUID | None:
    """Return the first flavor, in the order given, whose whole selector a node's labels match."""
    for flavor in flavors:
        if _matches(flavor.node_selector, labels):
            return flavor.pk
    return None


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
