"""Converts Node objects to the engine's nodes, with the usage of pods that belong to no placed workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.podsets import MEMORY, PODS
from scheduling.conformance.kueue.manifests.topology_objects import (
    add_amounts,
    is_usable,
    pod_amounts,
    read_amounts,
    topology_node,
)
from scheduling.engine.model import Extended, Node

Object = Mapping[str, Any]
PLAIN = (quantities.CPU, MEMORY, PODS)


def read_nodes(objects: Iterable[Object], pods: Iterable[Object]) -> Iterator[Node]:
    """Yield the nodes with the usage of such pods. Amounts are in canonical units, memory in bytes."""
    used: dict[str, dict[str, int]] = {}
    for name, held in pod_amounts(pods):
        used[name] = add_amounts(used.get(name, {}), held)
    for entry in objects:
        yield _node(entry, used.get(entry["metadata"]["name"], {}))


def _node(entry: Object, used: Mapping[str, int]) -> Node:
    known = topology_node(entry)
    offered = read_amounts((entry.get("status") or {}).get("allocatable"))
    return Node(
        id=known.name,
        name=known.name,
        labels=dict(entry["metadata"].get("labels") or {}),
        taints=known.taints,
        ready=is_usable(entry),
        cpu=offered.get(quantities.CPU, 0),
        memory=offered.get(MEMORY, 0),
        pods=offered.get(PODS, 0),
        extended=_extended(offered),
        used_cpu=used.get(quantities.CPU, 0),
        used_memory=used.get(MEMORY, 0),
        used_pods=used.get(PODS, 0),
        used_extended=_extended(used),
    )


def _extended(listed: Mapping[str, int]) -> tuple[Extended, ...]:
    return tuple(Extended(name, listed[name]) for name in sorted(listed) if name not in PLAIN)
