"""What an observer sees: nodes and pods, whole or since a change number."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any, Final

from clusters.backends.base import (
    DeviceFact,
    Inventory,
    NodeFact,
    NodeObservation,
    Observation,
    ObservedBatch,
    PodObservation,
    PodPhase,
    TaskRef,
    in_order,
)
from clusters.backends.simulated import life
from clusters.backends.simulated.state import Moment
from clusters.models import SimulatedDevice, SimulatedNode, SimulatedPhase, SimulatedPod

_ALL: Final = -1  # below every change number
_POD_COLUMNS = (
    "namespace",
    "name",
    "uid",
    "phase",
    "changed_ms",
    "labels",
    "ended_code",
    "reason",
    "message",
)


def inventory(cluster_id: uuid.UUID) -> Inventory:
    """Every node with its cards, in the order of their names."""
    moment = life.advance(cluster_id)
    return Inventory(tuple(fact for _, fact in _nodes(moment, _ALL)))


def observe(cluster_id: uuid.UUID, cursor: str | None) -> ObservedBatch:
    """Everything since `cursor`, oldest first; all there is if the cursor is none, unknown or too old.

    The number is read before the rows. A change in between is reported now and again next time, which
    the contract allows; the other order would lose it.
    """
    moment = life.advance(cluster_id)
    since = _number(cursor)
    complete = not moment.row.pruned_to <= since <= moment.row.last_change
    since = _ALL if complete else since
    pods = SimulatedPod.unscoped.filter(simulation=moment.row, change__gt=since)
    if complete:
        pods = pods.exclude(phase=SimulatedPhase.GONE)
    seen: list[Observation] = [_pod(moment, row) for row in pods.values(*_POD_COLUMNS)]
    seen += [
        NodeObservation(node.name, fact, moment.timeline.real_at(node.changed_ms))
        for node, fact in _nodes(moment, since)
    ]
    again_s = life.next_in_s(moment)
    return ObservedBatch(in_order(seen), str(moment.row.last_change), complete, again_s)


def _number(cursor: str | None) -> int:
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() else _ALL


def _pod(moment: Moment, row: dict[str, Any]) -> PodObservation:
    phase = PodPhase(row["phase"])
    usual = {PodPhase.FAILED: "Error", PodPhase.SUCCEEDED: "Completed"}.get(phase, "")
    return PodObservation(
        ref=TaskRef(row["namespace"], row["name"], row["uid"]),
        phase=phase,
        at=moment.timeline.real_at(row["changed_ms"]),
        labels=row["labels"],
        exit_code=row["ended_code"],
        reason=row["reason"] or usual,
        message=row["message"],
    )


def _nodes(moment: Moment, since: int) -> list[tuple[SimulatedNode, NodeFact]]:
    nodes = SimulatedNode.unscoped.filter(simulation=moment.row, change__gt=since).order_by("name")
    cards: defaultdict[uuid.UUID, list[DeviceFact]] = defaultdict(list)
    rows = SimulatedDevice.unscoped.filter(node__simulation=moment.row, node__change__gt=since)
    columns = ("node_id", "uuid", "index", "model", "memory_mib", "mode", "healthy")
    for node_id, *card in rows.order_by("node", "index").values_list(*columns):
        cards[node_id].append(DeviceFact(*card))
    return [(node, _fact(node, tuple(cards[node.id]))) for node in nodes]


def _fact(node: SimulatedNode, devices: tuple[DeviceFact, ...]) -> NodeFact:
    return NodeFact(
        name=node.name,
        cpu_millicores=node.cpu_millicores,
        memory_mib=node.memory_mib,
        labels=node.labels,
        taints=tuple(node.taints),
        ready=not node.failed,
        cordoned=node.cordoned,
        devices=devices,
    )
