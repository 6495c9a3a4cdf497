"""Faults of the demo's cluster, so that pages about GPUs, alerts and data sources have something to show.

One card is too hot from the beginning, on one runs a process that belongs to no pod, and on one a pod ignores
the limits of its slice. Another reports an XID error every ten minutes. One node delivers no measurements for
an hour, five minutes after the start and then every six hours. `allotment simulate … recover` ends each of
them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable
from clusters.backends.simulated import faults
from clusters.models import BackendKind, Cluster, SimulatedDevice, SimulatedNode
from foundation.core import clock
from foundation.models import Heartbeat

THROTTLED: Final = ("gpu-a03", 2)
STRAY: Final = ("gpu-l02", 1)
UNLIMITED: Final = ("gpu-l01", 0)
XID: Final = ("gpu-a07", 5)
SILENT: Final = "gpu-a12"
XID_CODE: Final = 94
XID_EVERY: Final = timedelta(minutes=10)
SILENT_AFTER: Final = timedelta(minutes=5)
SILENT_EVERY: Final = timedelta(hours=6)
_FROM_THE_BEGINNING: Final = (
    (THROTTLED, faults.device_throttle),
    (STRAY, faults.device_stray),
    (UNLIMITED, faults.device_overuse),
)
_MARK: Final = "demo-faults"


def faults_tick() -> None:
    """Inject the faults that are due; a late or repeated call injects no more faults than a punctual one."""
    cluster = Cluster.unscoped.filter(name="demo", backend=BackendKind.SIMULATED).first()
    if cluster is None:
        return
    now = clock.now()
    mark, new = Heartbeat.unscoped.get_or_create(name=_MARK, defaults={"at": now})
    try:
        if new:
            for card, act in _FROM_THE_BEGINNING:
                for device in _device(cluster, card):
                    act(cluster.pk, device.uuid)
        _report_xid(cluster, now - (now - mark.at) % XID_EVERY)
        phase = (now - mark.at) % SILENT_EVERY
        if SILENT_AFTER <= phase < SILENT_AFTER + faults.SILENT_FOR:
            _silence_node(cluster, now - phase)
    except BackendUnavailable:
        # The cluster's API server was stopped; due faults are injected when it answers again.
        return


def _report_xid(cluster: Cluster, since: datetime) -> None:
    for device in _device(cluster, XID).exclude(xid_at__gte=since):
        faults.device_xid(cluster.pk, device.uuid, XID_CODE)


def _silence_node(cluster: Cluster, since: datetime) -> None:
    """Silence the node unless it was silenced since the beginning of this period, recovered or not."""
    nodes = SimulatedNode.unscoped.filter(simulation__cluster=cluster, name=SILENT)
    for node in nodes.exclude(silent_until__gte=since):
        faults.node_silence(cluster.pk, node.name)


def _device(cluster: Cluster, card: tuple[str, int]) -> QuerySet[SimulatedDevice]:
    node, index = card
    return SimulatedDevice.unscoped.filter(node__simulation__cluster=cluster, node__name=node, index=index)
