"""The cards of a node as the cluster reports them, written to rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from clusters.backends.base import DeviceFact
from clusters.gpu.named import counted_profile
from clusters.models import Device, Node
from clusters.services.node_life import cards_note
from clusters.services.node_marks import nodes_changed


def cards_upsert(
    node: Node, known: Mapping[str, Device], reported: Sequence[DeviceFact], *, at: datetime
) -> bool:
    """Add cards and update their changeable fields; an unreported card is unhealthy, not deleted.

    A card that is known from another node was moved into this one, or its node was renamed: it moves, and its
    allocations move with it until their holders are confirmed gone. Returns whether anything changed.
    """
    changed = False
    new: list[Device] = []
    seen = {fact.uuid for fact in reported}
    unknown = seen - known.keys()
    elsewhere = Device.unscoped.filter(uuid__in=unknown).in_bulk(field_name="uuid") if unknown else {}
    healthy = _health(reported, known)
    for fact in reported:
        device = known.get(fact.uuid) or elsewhere.get(fact.uuid)
        values = _values(node, fact, device, healthy[fact.uuid], at)
        if device is None:
            new.append(_new(fact, values))
        elif any(getattr(device, name) != value for name, value in values.items()):
            Device.unscoped.filter(pk=device.pk).update(**values)
            changed = True
            if device.node_id != node.pk:
                nodes_changed(Node.unscoped.filter(pk=device.node_id))
    lost = [device.pk for uuid, device in known.items() if uuid not in seen and device.healthy]
    if lost:
        Device.unscoped.filter(pk__in=lost, node=node).update(healthy=False)
    if new:
        Device.unscoped.bulk_create(new)
    cards_note(node, {uuid: device.healthy for uuid, device in known.items()}, healthy, at=at)
    return changed or bool(new) or bool(lost)


def _values(
    node: Node, fact: DeviceFact, device: Device | None, healthy: bool, at: datetime
) -> dict[str, Any]:
    since = device.broken_since if device is not None else None
    return {
        "node_id": node.pk,
        "healthy": healthy,
        "broken_since": (since or at) if fact.broken else None,
        "mode": fact.mode,
        "profile": fact.profile,
        "index": fact.index,
    }


def _new(fact: DeviceFact, values: Mapping[str, Any]) -> Device:
    return Device(
        uuid=fact.uuid,
        model=fact.model,
        memory_mib=fact.memory_mib,
        memory_capacity=fact.memory_mib,
        cores_capacity=fact.cores,
        **values,
    )


def _health(reported: Sequence[DeviceFact], known: Mapping[str, Device]) -> dict[str, bool]:
    """Return which cards take work. If only their number is known, cards without an allocation are the
    unhealthy ones.
    """
    healthy = {fact.uuid: fact.healthy for fact in reported}
    counted: defaultdict[str, list[DeviceFact]] = defaultdict(list)
    for fact in reported:
        if fact.counted:
            counted[counted_profile(fact.uuid)].append(fact)

    def first_to_fail(fact: DeviceFact) -> tuple[object, ...]:
        device = known.get(fact.uuid)
        held = device is not None and (device.holders or device.foreign_holders)
        return (bool(held), device is None or device.healthy, -fact.index, fact.uuid)

    for facts in counted.values():
        failed = sum(not fact.healthy for fact in facts)
        for place, fact in enumerate(sorted(facts, key=first_to_fail)):
            healthy[fact.uuid] = place >= failed
    return healthy
