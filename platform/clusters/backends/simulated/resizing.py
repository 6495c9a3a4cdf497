"""Changes the memory of slices in use after a delay, as the agent of a real node would do it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from clusters.backends.base import DeviceGrant, PodOutcome, TaskRef
from clusters.backends.simulated import chance, life, pods
from clusters.backends.simulated.state import ClusterState, lock_state
from clusters.models import GpuMode, SimulatedDevice, SimulatedNode, SimulatedPhase, SimulatedPod

_DELAY_MS: Final = (500, 2000)
_ENDED: Final = (SimulatedPhase.SUCCEEDED, SimulatedPhase.FAILED, SimulatedPhase.REMOVED)


def resize_devices(cluster_id: uuid.UUID, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
    """Request other memory sizes, or return whether an earlier request is carried out."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        named = SimulatedPod.unscoped.filter(
            simulation=moment.row, namespace=ref.namespace, name=ref.name
        ).exclude(phase__in=_ENDED)
        pod = named.first()
        if pod is None or ref.uid not in ("", pod.uid):
            return PodOutcome.of_refusal("POD_GONE", f"pod {ref.namespace}/{ref.name} has ended")
        wanted = {grant.uuid: grant.memory_mib for grant in devices}
        if wanted.keys() != {card for card, _, _ in pod.devices} or len(set(wanted.values())) != 1:
            return PodOutcome.of_refusal(
                "NOT_ITS_CARD", "all GPUs of the pod are named, with the same amount"
            )
        outcome = _step(moment, pod, next(iter(wanted.values())))
        pod.save(update_fields=["devices", "resize_mib", "resize_ms"])
    return outcome


def _step(moment: ClusterState, pod: SimulatedPod, mib: int) -> PodOutcome:
    _carry_out(moment, pod)
    if all(now == mib for _, _, now in pod.devices):
        pod.resize_mib = pod.resize_ms = None  # an earlier request is withdrawn
        return PodOutcome.of_success(pod.uid)
    if pod.resize_mib != mib:
        if refusal := _no_room(moment, pod, mib):
            return refusal
        pod.resize_mib = mib
        pod.resize_ms = moment.sim_ms + int(chance.random_between(*_DELAY_MS, pod.name, "resize"))
    return PodOutcome.of_unknown("the node has not done it yet")


def _carry_out(moment: ClusterState, pod: SimulatedPod) -> None:
    """Carry out a due request, unless the node is down."""
    if pod.resize_ms is None or pod.resize_ms > moment.sim_ms:
        return
    if SimulatedNode.unscoped.filter(simulation=moment.row, name=pod.node_name, failed=True).exists():
        return
    pod.devices = [[card, cores, pod.resize_mib] for card, cores, _ in pod.devices]
    pod.resize_mib = pod.resize_ms = None


def _no_room(moment: ClusterState, pod: SimulatedPod, mib: int) -> PodOutcome | None:
    """Return why a pod cannot grow, or None."""
    cards = SimulatedDevice.unscoped.filter(node__simulation=moment.row, node__name=pod.node_name)
    if cards.filter(uuid__in=[card for card, _, _ in pod.devices]).exclude(mode=GpuMode.SLICE).exists():
        return PodOutcome.of_refusal("NOT_ITS_CARD", "a whole GPU has all of its memory")
    kubelet = pods.kubelet_of(moment, pod.node_name)
    for grant in pods.at_most(pods.read_grants(pod.devices), pod.resize_mib):
        card = kubelet.cards.get(grant.uuid) if kubelet else None
        if card is None:
            return PodOutcome.of_refusal("CARD_FULL", f"node {pod.node_name} has no GPU {grant.uuid}")
        free = card.device.memory_mib - card.memory_mib + grant.memory_mib
        if mib > free:
            there = f"card {grant.uuid} of node {pod.node_name} has {free} MiB for it"
            return PodOutcome.of_refusal("CARD_FULL", f"{there}; {mib} MiB were asked for")
    return None
