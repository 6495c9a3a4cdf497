"""Faults and speed of a simulated cluster, on command.

A failed node stops reporting: its pods do not change, and keep their cards. When the node recovers it has
restarted: a pod whose run ended in the meantime is reported with its exit code, a pod that was being deleted
is gone, and every other pod was lost with its node.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, Final

from django.db.models import F

from clusters.backends.simulated import life
from clusters.backends.simulated.pods import NODE_LOST
from clusters.backends.simulated.state import ClusterState, lock_state
from clusters.models import SimulatedDevice, SimulatedNode, SimulatedPhase, SimulatedPod
from foundation.core import clock
from foundation.core.errors import Invalid, NotFound

DEVICE_LOST: Final = "DeviceUnhealthy"
SILENT_FOR: Final = timedelta(hours=1)
MOST_XID: Final = 999
_STRAY_MIB: Final = 6_144
_ABORTED: Final = 134  # SIGABRT: the exit of CUDA programs that lose their card


def node_fail(cluster_id: uuid.UUID, name: str) -> None:
    """Make a node not ready and freeze its pods. Raises: NotFound; a failed node stays failed."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        node = _node(moment, name)
        if node.failed:
            return
        _mark(moment, node, failed=True)
        _holders(moment, name).update(frozen_ms=F("next_ms"), next_ms=None)


def node_cordon(cluster_id: uuid.UUID, name: str) -> None:
    """Close a node to new pods, as a scheduler sees it; the kubelet still accepts bound pods."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        node = _node(moment, name)
        if not node.cordoned:
            _mark(moment, node, cordoned=True)


def node_uncordon(cluster_id: uuid.UUID, name: str) -> None:
    """Open a node to new pods again. Raises: NotFound; a node that is not cordoned stays as it is."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        node = _node(moment, name)
        if node.cordoned:
            _mark(moment, node, cordoned=False)


def node_silence(cluster_id: uuid.UUID, name: str) -> None:
    """Let a node deliver no measurements for an hour; its pods keep running. Raises: NotFound."""
    with lock_state(cluster_id) as moment:
        node = _node(moment, name)
        node.silent_until = moment.at + SILENT_FOR
        node.save(update_fields=["silent_until"])


def node_recover(cluster_id: uuid.UUID, name: str) -> None:
    """Make a node ready, open and measured again. Raises: NotFound; a healthy node stays as it is."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        node = _node(moment, name)
        if node.silent_until is not None and node.silent_until > moment.at:
            node.silent_until = moment.at
            node.save(update_fields=["silent_until"])
        if not node.failed and not node.cordoned:
            return
        if node.failed:
            _resolve(moment, name)
        _mark(moment, node, failed=False, cordoned=False)


def device_fail(cluster_id: uuid.UUID, device_uuid: str) -> None:
    """Make a card unhealthy and fail the pods on it. Raises: NotFound."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        device = _device(moment, device_uuid)
        if not device.healthy:
            return
        _mark_device(moment, device, healthy=False)
        holders = _holders(moment, device.node.name)
        hit = [
            pk
            for pk, cards in holders.values_list("id", "devices")
            if any(card[0] == device_uuid for card in cards)
        ]
        if hit and not device.node.failed:
            message = f"GPU {device_uuid} has fallen off the bus (Xid 79)"
            life.fail_pods(
                SimulatedPod.unscoped.filter(id__in=hit),
                moment,
                moment.next_change(),
                reason=DEVICE_LOST,
                message=message,
                code=_ABORTED,
            )


def device_throttle(cluster_id: uuid.UUID, device_uuid: str) -> None:
    """Overheat a card and lower its clocks. Raises: NotFound."""
    _set_fault(cluster_id, device_uuid, throttled=True)


def device_stray(cluster_id: uuid.UUID, device_uuid: str) -> None:
    """Start a process that belongs to no pod on a card. Raises: NotFound."""
    _set_fault(cluster_id, device_uuid, stray_mib=_STRAY_MIB)


def device_overuse(cluster_id: uuid.UUID, device_uuid: str) -> None:
    """Let the pod that has held a part of a card for longest ignore its limits. Raises: NotFound."""
    _set_fault(cluster_id, device_uuid, unlimited=True)


def device_xid(cluster_id: uuid.UUID, device_uuid: str, code: int) -> None:
    """Report an XID error of a card, which keeps working. Raises: NotFound, Invalid."""
    if not 1 <= code <= MOST_XID:
        raise Invalid(f"XID codes are from 1 to {MOST_XID}")
    _set_fault(cluster_id, device_uuid, xid_code=code, xid_at=clock.now())


def _set_fault(cluster_id: uuid.UUID, device_uuid: str, **values: Any) -> None:
    with lock_state(cluster_id) as moment:
        device = _device(moment, device_uuid)
        SimulatedDevice.unscoped.filter(pk=device.pk).update(**values)


def device_recover(cluster_id: uuid.UUID, device_uuid: str) -> None:
    """Make a card healthy and cool again, end its process without a pod, and limit its pods.

    Raises: NotFound.
    """
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        device = _device(moment, device_uuid)
        SimulatedDevice.unscoped.filter(pk=device.pk).update(throttled=False, stray_mib=0, unlimited=False)
        if not device.healthy:
            _mark_device(moment, device, healthy=True)


def set_speed(cluster_id: uuid.UUID, speed: float) -> None:
    """Let run times, start-up and deletion pass `speed` times as fast from now on. Raises: Invalid."""
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        try:
            timeline = moment.timeline.with_speed(speed, moment.at)
        except ValueError as error:
            raise Invalid(str(error)) from error
        moment.row.anchors = timeline.to_json()


def set_reachable(cluster_id: uuid.UUID, reachable: bool) -> None:
    """Set whether the API server answers; the cluster itself continues either way."""
    with lock_state(cluster_id, even_unreachable=True) as moment:
        moment.row.reachable = reachable


def _resolve(moment: ClusterState, name: str) -> None:
    change = moment.next_change()
    frozen = _holders(moment, name)
    over = frozen.filter(terminating=False, phase=SimulatedPhase.RUNNING, frozen_ms__lte=moment.sim_ms)
    life.finish_pods(over, change, ended_ms=moment.sim_ms)
    frozen.filter(terminating=True).update(next_ms=moment.sim_ms, frozen_ms=None)
    life.advance_locked(moment)
    message = "The node stopped reporting and was restarted; its containers were lost"
    life.fail_pods(_holders(moment, name), moment, change, reason=NODE_LOST, message=message)


def _holders(moment: ClusterState, node_name: str) -> life.Pods:
    return SimulatedPod.unscoped.filter(simulation=moment.row, node_name=node_name, holds=True)


def _node(moment: ClusterState, name: str) -> SimulatedNode:
    node = SimulatedNode.unscoped.filter(simulation=moment.row, name=name).first()
    if node is None:
        raise NotFound(f"no node {name!r} on this cluster")
    return node


def _device(moment: ClusterState, device_uuid: str) -> SimulatedDevice:
    devices = SimulatedDevice.unscoped.select_related("node")
    device = devices.filter(node__simulation=moment.row, uuid=device_uuid).first()
    if device is None:
        raise NotFound(f"GPU {device_uuid!r} not found on this cluster")
    return device


def _mark(moment: ClusterState, node: SimulatedNode, **states: bool) -> None:
    for field, value in states.items():
        setattr(node, field, value)
    node.change, node.changed_ms = moment.next_change(), moment.sim_ms
    node.save(update_fields=["change", "changed_ms", *states])


def _mark_device(moment: ClusterState, device: SimulatedDevice, *, healthy: bool) -> None:
    device.healthy = healthy
    device.save(update_fields=["healthy"])
    _mark(moment, device.node)  # a card is reported with its node
