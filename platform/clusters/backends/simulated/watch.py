"""The view of an observer: nodes and pods, whole or since a change number."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any, Final

from django.db.models import QuerySet

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
from clusters.backends.simulated.state import ClusterState
from clusters.models import SimulatedDevice, SimulatedNode, SimulatedPhase, SimulatedPod
from foundation.sql.prepared import PreparedQuery

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


def _changed(simulation: uuid.UUID, since: int) -> QuerySet[SimulatedPod]:
    return SimulatedPod.unscoped.filter(simulation=simulation, change__gt=since)


_CHANGED: Final = PreparedQuery(lambda *given: _changed(*given).values_list(*_POD_COLUMNS))
_LIVE: Final = PreparedQuery(
    lambda *given: _changed(*given).exclude(phase=SimulatedPhase.REMOVED).values_list(*_POD_COLUMNS)
)
_NODES: Final = PreparedQuery(
    lambda simulation, since: SimulatedNode.unscoped.filter(simulation=simulation, change__gt=since).order_by(
        "name"
    )
)
_CARDS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda simulation, since: (
        SimulatedDevice.unscoped.filter(node__simulation=simulation, node__change__gt=since)
        .order_by("node", "index")
        .values_list("node_id", "uuid", "index", "model", "memory_mib", "mode", "healthy")
    )
)


def read_inventory(cluster_id: uuid.UUID) -> Inventory:
    """Return every node with its cards, in the order of their names."""
    moment = life.advance_cluster(cluster_id)
    return Inventory(tuple(fact for _, fact in _nodes(moment, _ALL)))


def observe_pods(cluster_id: uuid.UUID, cursor: str | None) -> ObservedBatch:
    """Return the changes since `cursor`, oldest first; everything if it is None, malformed or too old.

    The change number is read before the rows. A change in between is reported now and again next time, which
    the contract allows; in the other order it would be lost.
    """
    moment = life.advance_cluster(cluster_id)
    since = _number(cursor)
    complete = not moment.row.pruned_to <= since <= moment.row.last_change
    since = _ALL if complete else since
    pods = (_LIVE if complete else _CHANGED)(moment.row.pk, since)
    seen: list[Observation] = [_pod(moment, dict(zip(_POD_COLUMNS, row, strict=True))) for row in pods]
    seen += [
        NodeObservation(node.name, fact, moment.timeline.real_at(node.changed_ms))
        for node, fact in _nodes(moment, since)
    ]
    again_s = life.next_in_s(moment)
    return ObservedBatch(in_order(seen), str(moment.row.last_change), complete, again_s)


def _number(cursor: str | None) -> int:
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() else _ALL


def _pod(moment: ClusterState, row: dict[str, Any]) -> PodObservation:
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


def _nodes(moment: ClusterState, since: int) -> list[tuple[SimulatedNode, NodeFact]]:
    nodes = _NODES(moment.row.pk, since)
    cards: defaultdict[uuid.UUID, list[DeviceFact]] = defaultdict(list)
    for node_id, *card in _CARDS(moment.row.pk, since) if nodes else ():
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
