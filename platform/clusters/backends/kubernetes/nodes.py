"""What a node's object tells: capacity, taints, readiness, and the cards it has.

Two kinds of cards are known. HAMi's device plugin registers each by its uuid. NVIDIA's plugin tells
only how many there are, and the kubelet chooses among them: such cards are named by their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Final
from uuid import UUID, uuid5

import structlog
from kubernetes.utils.quantity import parse_quantity

from clusters.backends.base import DeviceFact, NodeFact
from clusters.backends.kubernetes.api import Json
from clusters.gpu import hami

log = structlog.get_logger(__name__)

GPU: Final = "nvidia.com/gpu"
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_CARDS: Final = UUID("6c1c6b0e-9a53-4b0c-8f3e-0d6b2f4f7a10")
_PRESSURE: Final = {"MemoryPressure": "memory", "DiskPressure": "disk", "PIDPressure": "pid"}
# Taints by which Kubernetes repeats what is told here on its own.
_TOLD: Final = frozenset(
    f"node.kubernetes.io/{word}"
    for word in (
        *("unschedulable", "not-ready", "unreachable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
_MEBI: Final = 1024 * 1024


def node_fact(node: Json, cluster: str) -> NodeFact:
    """Read one node of the cluster of that name. A card that the cluster withholds is told as unhealthy.

    A register that cannot be read hides the cards of its own node and nothing else.
    """
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    allocatable = status.get("allocatable") or {}
    return NodeFact(
        name=metadata["name"],
        cpu_millicores=_floor(parse_quantity(allocatable.get("cpu", "0")) * 1000),
        memory_mib=_floor(parse_quantity(allocatable.get("memory", "0")) / _MEBI),
        labels=dict(metadata.get("labels") or {}),
        taints=tuple(_taint(taint) for taint in _taints(spec)),
        ready=_conditions(status).get("Ready") == "True",
        cordoned=bool(spec.get("unschedulable")),
        pressure=tuple(word for name, word in _PRESSURE.items() if _conditions(status).get(name) == "True"),
        devices=tuple(_devices(cluster, metadata, status)),
    )


def named_by_node(cluster: str, node: str, index: int) -> str:
    """A name for a card of which the cluster tells none: always the same, and no other cluster's."""
    return f"card/{uuid5(_CARDS, f'{cluster}/{node}/{index}')}"


def is_named_by_node(uuid: str) -> bool:
    """Whether the kubelet chooses the card itself: no uuid of a card holds a slash."""
    return "/" in uuid


def _taints(spec: Json) -> list[Json]:
    return [taint for taint in spec.get("taints") or [] if taint.get("key") not in _TOLD]


def _taint(taint: Json) -> dict[str, str]:
    return {key: str(taint.get(key) or "") for key in ("key", "value", "effect")}


def _conditions(status: Json) -> dict[str, str]:
    return {row["type"]: row["status"] for row in status.get("conditions") or []}


def _devices(cluster: str, metadata: Json, status: Json) -> list[DeviceFact]:
    annotations = metadata.get("annotations") or {}
    allocatable = _count(status.get("allocatable"))
    if register := annotations.get(hami.REGISTER):
        cordoned = set(annotations.get(hami.CORDONED_CARDS, "").split(","))
        # The plugin's own word is old when the plugin is dead; then the kubelet offers none of its cards.
        return [
            _registered(card, offered=allocatable > 0 and card.uuid not in cordoned)
            for card in _cards(metadata["name"], register)
        ]
    labels = metadata.get("labels") or {}
    there = max(_count(status.get("capacity")), allocatable)
    return [
        DeviceFact(
            uuid=named_by_node(cluster, metadata["name"], index),
            index=index,
            model=labels.get(_PRODUCT, ""),
            memory_mib=int(labels.get(_MEMORY, "0")),
            healthy=index < allocatable,
            counted=True,
        )
        for index in range(there)
    ]


def _cards(node: str, register: str) -> list[hami.RegisteredCard]:
    try:
        return sorted(hami.parse_register(register), key=lambda card: (card.index, card.uuid))
    except hami.HamiFormatError as error:
        log.warning("the cards of a node cannot be read", node=node, error=str(error))
        return []


def _registered(card: hami.RegisteredCard, *, offered: bool) -> DeviceFact:
    return DeviceFact(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        memory_mib=card.memory_mib,
        mode="mig" if card.mode == "mig" else "slice",
        healthy=card.healthy and offered,
        broken=not card.healthy,
    )


def _count(resources: Mapping[str, str] | None) -> int:
    return int((resources or {}).get(GPU, "0"))


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))
