"""Allocates parts of cards on HAMi nodes: the node's lock, the room on each card, the annotations.

HAMi's device plugin gives a starting container the devices in its pod's annotations, and the node's lock
names that pod. Without the lock the plugin may serve another pod. So one pod at a time is bound on a node,
and the next waits until the plugin has answered for the last.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from clusters.backends.base import BackendUnavailable, DeviceGrant, TaskSpec
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.nodes.held import ContainerRequest, asked_of, shares_of
from clusters.backends.kubernetes.pods import pods
from clusters.gpu import hami
from clusters.gpu.hami import CardShare, RegisteredCard
from foundation.core import clock, faults

log = structlog.get_logger(__name__)

_WAIT_S: Final = 10.0  # for a lock; after that the next sweep creates the pod
_POLL_S: Final = 0.2
_STUCK: Final = timedelta(seconds=60)
_SETTLED: Final = (hami.PHASE_SUCCESS, hami.PHASE_FAILED)
_NOT_FOUND, _CONFLICT = 404, 409


class NoRoom(Exception):
    """The part does not fit on the card next to the present ones; the message gives the room that is left."""


def reserve_shares(api: KubernetesApi, spec: TaskSpec) -> dict[str, str]:
    """Take the node's lock for this pod and return the annotations for its binding.

    Raises: NoRoom; BackendUnavailable while another pod keeps the lock; RequestRefused.
    """
    node = _lock(api, spec)
    faults.fault_point("kubernetes.locked")
    try:
        _check_room(api, node, spec.devices, but=(spec.ref.namespace, spec.ref.name))
    except NoRoom:
        _unlock(api, spec)
        raise
    held = [CardShare(grant.uuid, grant.memory_mib, grant.cores) for grant in spec.devices]
    text, now = hami.encode_shares([held]), str(int(clock.now().timestamp()))
    return {
        hami.NODE: spec.node,
        hami.TIME: now,
        hami.TO_ALLOCATE: text,
        hami.ALLOCATED: text,
        hami.PHASE: hami.PHASE_ALLOCATING,
        hami.BIND_TIME: now,
    }


def _lock(api: KubernetesApi, spec: TaskSpec) -> Json:
    """Compare and swap until the lock is ours; return the node as it is then."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        node, now = api.get(f"/api/v1/nodes/{spec.node}"), clock.now()
        holder = _holder(node)
        ours = holder is not None and holder.held_by(spec.ref.namespace, spec.ref.name)
        if ours or holder is None or holder.is_expired(now) or _settled(api, holder, now):
            lock = hami.NodeLock(now, spec.ref.namespace, spec.ref.name)
            try:
                return _write_lock(api, node, lock.to_annotation())
            except RequestRefused as error:
                if error.status != _CONFLICT:
                    raise
        elif time.monotonic() > deadline:
            pod, since = f"{holder.namespace}/{holder.pod}", f"{holder.taken_at:%H:%M:%S}"
            raise BackendUnavailable(f"node {spec.node} has allocated GPUs to {pod} since {since}")
        else:
            time.sleep(_POLL_S)


def _unlock(api: KubernetesApi, spec: TaskSpec) -> None:
    """Release the lock if it is still ours."""
    node = api.get(f"/api/v1/nodes/{spec.node}")
    holder = _holder(node)
    if holder is not None and holder.held_by(spec.ref.namespace, spec.ref.name):
        try:
            _write_lock(api, node, None)
        except RequestRefused as error:
            if error.status != _CONFLICT:  # another pod has the lock now
                raise


def _holder(node: Json) -> hami.NodeLock | None:
    text = (node["metadata"].get("annotations") or {}).get(hami.LOCK)
    return hami.parse_lock(text) if text else None


def _write_lock(api: KubernetesApi, node: Json, text: str | None) -> Json:
    metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {hami.LOCK: text}}
    return api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": metadata})


def _settled(api: KubernetesApi, holder: hami.NodeLock, now: datetime) -> bool:
    """Return whether the plugin has finished with the pod that the lock names, or never will."""
    try:
        pod = api.get(pods.pod_path(holder.namespace, holder.pod))
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return True
    phase = (pod["metadata"].get("annotations") or {}).get(hami.PHASE)
    if phase in _SETTLED or pods.has_ended(pod):
        return True
    if now - holder.taken_at > _STUCK and pods.is_ours(pod):
        # While the pod exists, the plugin may still answer for it, to the wrong pod. The kubelet does not
        # retry either: only a new pod helps, and the platform creates one after this one is observed as
        # deleted.
        _end(api, pod)
    return False


def _end(api: KubernetesApi, pod: Json) -> None:
    metadata = pod["metadata"]
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
    try:
        api.delete(pods.pod_path(metadata["namespace"], metadata["name"]), options)
    except RequestRefused as error:
        if error.status not in (_NOT_FOUND, _CONFLICT):
            raise


def check_room(api: KubernetesApi, pod: Json, wanted: Sequence[DeviceGrant]) -> None:
    """Check that a pod may hold that much of its cards in addition to other pods. Raises: NoRoom."""
    metadata = pod["metadata"]
    node = api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    _check_room(api, node, wanted, but=(metadata["namespace"], metadata["name"]))


def _check_room(api: KubernetesApi, node: Json, wanted: Sequence[DeviceGrant], but: tuple[str, str]) -> None:
    """Check the room on each card by the cluster's own annotations, as a second check behind the ledger."""
    name = node["metadata"]["name"]
    register = (node["metadata"].get("annotations") or {}).get(hami.REGISTER, "")
    cards = {card.uuid: card for card in hami.parse_register(register)}
    on_node, _ = api.list_objects("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
    cores, memory = _held(on_node, cards, [grant.uuid for grant in wanted], but=but)
    for grant in wanted:
        card = cards.get(grant.uuid)
        if card is None:
            raise NoRoom(f"node {name} has no GPU {grant.uuid}")
        free_cores, free_memory = card.cores - cores[grant.uuid], card.memory_mib - memory[grant.uuid]
        if grant.cores > free_cores or grant.memory_mib > free_memory:
            raise NoRoom(
                f"GPU {grant.uuid} of node {name} has {free_cores} % and {free_memory} MiB left; "
                f"the pod needs {grant.cores} % and {grant.memory_mib} MiB"
            )


def _held(
    on_node: Iterable[Json], cards: Mapping[str, RegisteredCard], wanted: Sequence[str], but: tuple[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the cores and MiB of each card that the pods of a node hold, except for one pod.

    A pod with an unreadable annotation holds what it requests, whole cards unless it requests less, but its
    cards are unknown: they are assumed to be other cards than `wanted` as far as the node has others. So such
    a pod takes no more capacity from jobs than it requests, whatever its annotation says.
    """
    cores: defaultdict[str, int] = defaultdict(int)
    memory: defaultdict[str, int] = defaultdict(int)
    unread: list[ContainerRequest] = []
    for pod in on_node:
        metadata = pod["metadata"]
        if pods.has_ended(pod) or (metadata["namespace"], metadata["name"]) == but:
            continue
        try:
            for share in shares_of(pod):
                cores[share.uuid] += share.cores
                memory[share.uuid] += share.memory_mib
        except hami.HamiFormatError as error:
            name = f"{metadata['namespace']}/{metadata['name']}"
            log.warning("what a pod holds of cards cannot be read", pod=name, error=str(error))
            unread.append(asked_of(pod))
    for asked in unread:
        _add_unread(asked, cards, wanted, cores, memory)
    return cores, memory


def _add_unread(
    asked: ContainerRequest,
    cards: Mapping[str, RegisteredCard],
    wanted: Sequence[str],
    cores: dict[str, int],
    memory: dict[str, int],
) -> None:
    """Count a pod's request on cards where it fits, using the `wanted` cards last."""

    def part(uuid: str) -> tuple[int, int]:
        return asked.cores or cards[uuid].cores, asked.memory_mib or cards[uuid].memory_mib

    def unlikely(uuid: str) -> tuple[bool, bool, str]:
        over = cores[uuid] + part(uuid)[0] > cards[uuid].cores
        return over or memory[uuid] + part(uuid)[1] > cards[uuid].memory_mib, uuid in wanted, uuid

    for uuid in sorted(cards, key=unlikely)[: asked.cards]:
        more_cores, more_memory = part(uuid)
        cores[uuid] += more_cores
        memory[uuid] += more_memory
