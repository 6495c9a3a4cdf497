"""Nodes and cards as the cluster reports them, written to rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import F

from clusters.backends.base import Inventory, NodeFact, NodeObservation
from clusters.models import Cell, Cluster, Device, Flavor, Node
from clusters.services.foreign_sums import foreign_settle
from foundation import clock, outbox


def inventory_sync(*, cluster: Cluster, inventory: Inventory) -> int:
    """Bring rows in line with a complete inventory; nodes it lacks are marked absent. Returns nodes."""
    now = clock.now()
    observations = [NodeObservation(fact.name, fact, now) for fact in inventory.nodes]
    present = {fact.name for fact in inventory.nodes}
    gone = Node.unscoped.filter(cluster=cluster, present=True).exclude(name__in=present)
    observations += [NodeObservation(name, None, now) for name in gone.values_list("name", flat=True)]
    nodes_observe(cluster=cluster, observations=observations)
    return len(inventory.nodes)


@transaction.atomic
def nodes_observe(*, cluster: Cluster, observations: Iterable[NodeObservation]) -> None:
    """Apply what was seen of nodes; a change of anything the engine reads asks for a cycle."""
    # In the order in which an admission locks them: the cell, then nodes by key, then cards.
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    flavors = list(Flavor.unscoped.filter(cluster=cluster).order_by("name"))
    rows = Node.unscoped.select_for_update(no_key=True).filter(cluster=cluster).order_by("pk")
    known = {node.name: node for node in rows.prefetch_related("devices")}
    changed: set[str] = set()
    for seen in sorted(observations, key=lambda item: (item.name, item.at)):
        node = known.get(seen.name)
        if seen.fact is None:
            moved = bool(node) and _leave(seen.name, cluster)
        else:
            known[seen.name], moved = _upsert(cluster, node, seen.fact, seen, flavors)
        if moved:
            changed.add(seen.name)
    if changed:
        foreign_settle(cluster_id=cluster.pk, names=changed)
        Cell.unscoped.filter(pk=cluster.cell_id).update(inventory_version=F("inventory_version") + 1)
        outbox.hint(outbox.Topic.CYCLE, cluster.cell_id)


def _leave(name: str, cluster: Cluster) -> bool:
    now = clock.now()
    rows = Node.unscoped.filter(cluster=cluster, name=name, present=True)
    return bool(rows.update(present=False, ready=False, not_ready_since=now))


def _facts(fact: NodeFact) -> dict[str, object]:
    return {
        "labels": dict(fact.labels),
        "taints": [dict(taint) for taint in fact.taints],
        "zone": fact.labels.get("topology.kubernetes.io/zone", ""),
        "rack": fact.labels.get("allotment.io/rack", ""),
        "ready": fact.ready,
        "cordoned": fact.cordoned,
        "present": True,
        "cpu_millicores": fact.cpu_millicores,
        "memory_mib": fact.memory_mib,
    }


def _upsert(
    cluster: Cluster,
    node: Node | None,
    fact: NodeFact,
    seen: NodeObservation,
    flavors: Iterable[Flavor],
) -> tuple[Node, bool]:
    facts = _facts(fact) | {"flavor_id": flavor_of(fact.labels, flavors)}
    if node is None:
        node = Node.unscoped.create(
            cluster=cluster,
            name=fact.name,
            observed_at=seen.at,
            not_ready_since=None if fact.ready else seen.at,
            **facts,
        )
        _devices(node, {}, fact)
        return node, True
    moved = any(getattr(node, name) != value for name, value in facts.items())
    if moved:
        since = None if fact.ready else (node.not_ready_since or seen.at)
        Node.unscoped.filter(pk=node.pk).update(**facts, not_ready_since=since, observed_at=seen.at)
        for name, value in facts.items():
            setattr(node, name, value)
    known = {device.uuid: device for device in node.devices.all()}
    return node, _devices(node, known, fact) or moved


def flavor_of(labels: Mapping[str, str], flavors: Iterable[Flavor]) -> uuid.UUID | None:
    """The first flavor, in the order given, whose whole selector a node's labels carry."""
    for flavor in flavors:
        if _matches(flavor.node_selector, labels):
            return flavor.pk
    return None


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _devices(node: Node, known: Mapping[str, Device], fact: NodeFact) -> bool:
    """Add cards and update what can change; a card that is no longer reported is unhealthy, not deleted.

    A card that is known from elsewhere was put into this node, or its node has a new name: it moves, and
    what is held of it moves with it until its holder is confirmed gone.
    """
    changed = False
    new: list[Device] = []
    reported = {seen.uuid for seen in fact.devices}
    elsewhere = Device.unscoped.filter(uuid__in=reported - known.keys()).in_bulk(field_name="uuid")
    for seen in fact.devices:
        device = known.get(seen.uuid) or elsewhere.get(seen.uuid)
        if device is None:
            new.append(
                Device(
                    node=node,
                    uuid=seen.uuid,
                    index=seen.index,
                    model=seen.model,
                    memory_mib=seen.memory_mib,
                    memory_capacity=seen.memory_mib,
                    mode=seen.mode,
                    profile=seen.profile,
                    healthy=seen.healthy,
                )
            )
            continue
        now = {
            "node_id": node.pk,
            "healthy": seen.healthy,
            "mode": seen.mode,
            "profile": seen.profile,
            "index": seen.index,
        }
        if any(getattr(device, name) != value for name, value in now.items()):
            Device.unscoped.filter(pk=device.pk).update(**now)
            changed = True
    lost = [device.pk for uuid_, device in known.items() if uuid_ not in reported and device.healthy]
    if lost:
        Device.unscoped.filter(pk__in=lost, node=node).update(healthy=False)
    Device.unscoped.bulk_create(new)
    return changed or bool(new) or bool(lost)
