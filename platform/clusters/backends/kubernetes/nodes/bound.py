"""The node and cards that a pod of any owner holds, read from its object in the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any, Final

import structlog
from kubernetes.utils.quantity import parse_quantity

from clusters.backends.base import BoundPod, DeviceGrant
from clusters.backends.kubernetes.client.api import Json
from clusters.backends.kubernetes.nodes.held import shares_of
from clusters.backends.kubernetes.pods import pods
from clusters.gpu import hami
from clusters.gpu.nvidia import CARD_RESOURCE, MIG_RESOURCE

log = structlog.get_logger(__name__)

_MIRROR: Final = "kubernetes.io/config.mirror"  # marks a static pod, defined by a file on the node
_OF_THE_NODE: Final = ("DaemonSet", "Node")
_MARKS: Final = "allotment.io/"
_MEBI: Final = 1024 * 1024
_MORE: Final = frozenset(("initContainers", "overhead", "resources"))
"""The fields of a pod's specification that add to the requests of its containers."""

Amounts = Counter[str]


def bound_pod(item: Json) -> BoundPod:
    """Return what a pod holds according to its object."""
    metadata, asked = item["metadata"], sum_requests(item["spec"])
    shares = _shares(item)
    labels: Mapping[str, str] = metadata.get("labels") or {}
    owner: Json = next(iter(metadata.get("ownerReferences") or ()), {})
    is_permanent = _MIRROR in (metadata.get("annotations") or {}) or owner.get("kind") in _OF_THE_NODE
    return BoundPod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=item["spec"]["nodeName"],
        cpu_millicores=asked["cpu"],
        memory_mib=-(-asked["memory"] // _MEBI),
        cards={} if shares else _cards(asked),
        shares=shares,
        owner=f"{owner['kind']}/{owner['name']}" if owner else "",
        is_permanent=is_permanent,
        terminating=bool(metadata.get("deletionTimestamp")),
        labels={
            key: value
            for key, value in labels.items()
            if key.startswith(_MARKS) or pods.MANAGED.get(key) == value
        },
        installation=labels.get(pods.INSTALLATION, ""),
    )


def sum_requests(spec: Json) -> Amounts:
    """Return the requests that the scheduler counts for a pod: CPU in millicores, memory in bytes, others
    in pieces.

    They are the greater of the containers' sum and of the need of each step of the start, where sidecars add
    up; requests of the pod as a whole take precedence, and its overhead is added. The rule is that of
    Kubernetes' `resource.PodRequests`.
    """
    containers = spec["containers"]
    if len(containers) == 1 and not _MORE.intersection(spec):
        return _asked(containers[0])
    sidecars, start = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars.update(_asked(container))
            start |= sidecars
        else:
            start |= sidecars + _asked(container)
    running = sum((_asked(container) for container in containers), sidecars)
    total = Amounts({**(running | start), **_asked(spec)})
    total.update(_amounts(spec.get("overhead") or {}))
    return total


def _asked(holder: Json) -> Amounts:
    """Return the requests of a container or pod; a limit without a request counts as a request."""
    resources = holder.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Mapping[str, Any]) -> Amounts:
    return Amounts({name: _amount(text, name == "cpu") for name, text in quantities.items()})


@lru_cache(maxsize=4096)
def _amount(text: str | int | float, is_cpu: bool) -> int:
    """Return a quantity rounded up, of CPU in millicores. Cached, because most pods request the same."""
    scale = 1000 if is_cpu else 1
    return int((parse_quantity(text) * scale).to_integral_value(ROUND_CEILING))


def _cards(asked: Amounts) -> dict[str, int]:
    """Return the number of cards by profile."""
    named = {"": asked[CARD_RESOURCE]} | {
        name.removeprefix(MIG_RESOURCE): amount
        for name, amount in asked.items()
        if name.startswith(MIG_RESOURCE)
    }
    return {profile: amount for profile, amount in sorted(named.items()) if amount}


def _shares(item: Json) -> tuple[DeviceGrant, ...]:
    """Return the parts of cards in HAMi's annotation; with an unreadable one, cards count as wholly taken."""
    try:
        shares = shares_of(item)
    except hami.HamiFormatError as error:
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        log.warning("what a pod holds of cards cannot be read", pod=name, error=str(error))
        return ()
    return tuple(DeviceGrant(share.uuid, share.cores, share.memory_mib) for share in shares)
