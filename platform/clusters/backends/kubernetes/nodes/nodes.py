"""The facts in a node's object: capacity, taints, readiness, and the cards.

HAMi's device plugin registers each card by its uuid. NVIDIA's plugin reports only their number, and the
kubelet chooses among them: such cards are named by their index. So are MIG instances, which a node counts by
profile (strategy `mixed`) or, if all are alike, as if they were cards (`single`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from typing import Final

import structlog
from kubernetes.utils.quantity import parse_quantity

from clusters.backends.base import DeviceFact, NodeFact
from clusters.backends.kubernetes.client.api import Json
from clusters.gpu import hami
from clusters.gpu.named import named_by_node
from clusters.gpu.nvidia import CARD_RESOURCE, MEMORY_LABEL, MIG_RESOURCE, PRODUCT_LABEL

log = structlog.get_logger(__name__)

_PRESSURE: Final = {"MemoryPressure": "memory", "DiskPressure": "disk", "PIDPressure": "pid"}
# Taints by which Kubernetes repeats conditions that are reported here separately.
_CONDITION_TAINTS: Final = frozenset(
    f"node.kubernetes.io/{word}"
    for word in (
        *("unschedulable", "not-ready", "unreachable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
_SINGLE: Final = "-MIG-"  # precedes the profile in the product name if all cards are partitioned alike
_PROFILE: Final = re.compile(r"(?:\d+c\.)?(?P<slices>\d+)g\.(?P<gb>\d+)gb")
_PROFILE_LENGTH: Final = 20
_SLICES: Final = 7  # the number of compute slices into which MIG divides a card
_MEBI: Final = 1024 * 1024


def node_fact(node: Json, cluster: str) -> NodeFact:
    """Read one node of the cluster of that name. A card that the cluster withholds is reported as unhealthy.

    A register that cannot be read hides the cards of its own node and no others.
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
        pods=_floor(parse_quantity(allocatable["pods"])) if "pods" in allocatable else None,
    )


def _taints(spec: Json) -> list[Json]:
    return [taint for taint in spec.get("taints") or [] if taint.get("key") not in _CONDITION_TAINTS]


def _taint(taint: Json) -> dict[str, str]:
    return {key: str(taint.get(key) or "") for key in ("key", "value", "effect")}


def _conditions(status: Json) -> dict[str, str]:
    return {row["type"]: row["status"] for row in status.get("conditions") or []}


def _devices(cluster: str, metadata: Json, status: Json) -> list[DeviceFact]:
    annotations = metadata.get("annotations") or {}
    allocatable = _count(status.get("allocatable"), CARD_RESOURCE)
    if register := annotations.get(hami.REGISTER):
        cordoned = set(annotations.get(hami.CORDONED_CARDS, "").split(","))
        # A dead plugin leaves its register outdated; then the kubelet offers none of its cards.
        return [
            _registered(card, offered=allocatable > 0 and card.uuid not in cordoned)
            for card in _cards(metadata["name"], register)
        ]
    found = _counted(cluster, metadata, status)
    return [replace(device, index=index) for index, device in enumerate(found)]


def _counted(cluster: str, metadata: Json, status: Json) -> Iterator[DeviceFact]:
    """Yield the cards, then the MIG instances by profile, of a node that reports only their numbers."""
    node, labels = metadata["name"], metadata.get("labels") or {}
    model, _, profile = labels.get(PRODUCT_LABEL, "").partition(_SINGLE)
    for index, healthy in enumerate(_offers(status, CARD_RESOURCE)):
        fact = DeviceFact(
            uuid=named_by_node(cluster, node, index),
            index=index,
            model=model,
            memory_mib=int(labels.get(MEMORY_LABEL, "0")),
            healthy=healthy,
            counted=True,
        )
        yield _instance(fact, profile) if profile else fact
    for resource in sorted(status.get("capacity") or {}):
        if not resource.startswith(MIG_RESOURCE):
            continue
        profile = resource.removeprefix(MIG_RESOURCE)
        memory = int(labels.get(f"{resource}.memory", "0"))
        for index, healthy in enumerate(_offers(status, resource)):
            uuid = named_by_node(cluster, node, index, profile)
            yield _instance(
                DeviceFact(uuid, index, model, memory_mib=memory, healthy=healthy, counted=True), profile
            )


def _instance(fact: DeviceFact, profile: str) -> DeviceFact:
    """Return a MIG instance with its profile's part of the card; with an unknown profile it is unhealthy."""
    found = _PROFILE.match(profile)
    if found is None:
        return replace(fact, mode="mig", profile=profile[:_PROFILE_LENGTH], healthy=False)
    cores = -(-100 * min(int(found["slices"]), _SLICES) // _SLICES)
    memory = fact.memory_mib or int(found["gb"]) * 1024
    return replace(fact, mode="mig", profile=profile, cores=cores, memory_mib=memory)


def _offers(status: Json, resource: str) -> list[bool]:
    """Return for each card of a resource whether the node offers it now."""
    offered = _count(status.get("allocatable"), resource)
    return [index < offered for index in range(max(_count(status.get("capacity"), resource), offered))]


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


def _count(resources: Mapping[str, str] | None, resource: str) -> int:
    return int((resources or {}).get(resource, "0"))


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))
