"""The cards that a pod holds: by HAMi's annotations, and otherwise by its requests.

Any user of the cluster may have written the annotation, so it counts only up to the pod's own requests, which
are what the cluster's quotas and the device plugin use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubernetes.utils.quantity import parse_quantity

from clusters.backends.kubernetes.client.api import Json
from clusters.gpu import hami
from clusters.gpu.hami import CardShare
from clusters.gpu.nvidia import CARD_RESOURCE, PART_CORES_RESOURCE, PART_MEMORY_RESOURCE


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The request of a pod's containers: cards, and MiB and percent points of each; 0 is unset."""

    cards: int = 0
    memory_mib: int = 0
    cores: int = 0


def asked_of(pod: Json) -> ContainerRequest:
    """Return the cards that all containers of a pod request, and the most that one requests of a card."""
    cards = memory_mib = cores = 0
    for limits in _limits(pod["spec"]):
        count = _whole(limits.get(CARD_RESOURCE))
        if count:
            cards += count
            memory_mib = max(memory_mib, _whole(limits.get(PART_MEMORY_RESOURCE)))
            cores = max(cores, _whole(limits.get(PART_CORES_RESOURCE)))
    return ContainerRequest(cards, memory_mib, cores)


def shares_of(pod: Json) -> list[CardShare]:
    """Return the parts of cards that a pod holds; none if its containers request no card.

    Raises: HamiFormatError if the annotation cannot be read, or claims more cards than the pod asks for.
    """
    text = (pod["metadata"].get("annotations") or {}).get(hami.ALLOCATED, "")
    asked = asked_of(pod).cards if text else 0
    if not asked:
        return []
    shares = [share for container in hami.decode_shares(text) for share in container]
    if len(shares) > asked:
        raise hami.HamiFormatError(f"{hami.ALLOCATED} names {len(shares)} GPUs of {asked} requested")
    return shares


def _limits(spec: Json) -> Iterator[Mapping[str, str]]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield (container.get("resources") or {}).get("limits") or {}


def _whole(quantity: str | None) -> int:
    """Parse a number of devices, MiB or percent points as the cluster writes it: 2000 may be 2k."""
    return int(parse_quantity(quantity or "0"))
