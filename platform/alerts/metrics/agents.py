"""Metrics of the reports of node agents: errors of GPUs and processes without an allocation.

A GPU whose node has no agent with a recent report has no value, because its state is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from alerts.metrics.base import Observation
from alerts.metrics.hardware import observe_gpu
from clusters.gpu.batches import EventKind
from clusters.models import Device
from foundation.core.actor import SYSTEM
from telemetry.models import NodeAgent
from telemetry.series.readings.agents import gpu_events, gpu_processes
from telemetry.store.times import to_ms

ERRORS_WITHIN: Final = timedelta(minutes=15)
_PROCESSES_WITHIN: Final = timedelta(minutes=1)
_FRESH_FOR: Final = timedelta(minutes=2)
_FAULTS: Final = frozenset({EventKind.LOST, EventKind.RESET_REQUIRED, EventKind.DRIVER_MISMATCH})


def _observe(now: datetime, count: Callable[[Device], int]) -> list[Observation]:
    seen = dict(NodeAgent.unscoped.order_by().values_list("node_id", "seen_at"))
    fresh = {node for node, at in seen.items() if at >= now - _FRESH_FOR}
    devices = Device.unscoped.filter(node__present=True).select_related("node").order_by("pk")
    return [
        observe_gpu(
            device,
            float(count(device)) if device.node_id in fresh else None,
            is_supported=device.node_id in seen,
        )
        for device in devices
    ]


def read_xid_errors(now: datetime) -> list[Observation]:
    """Count the XID errors of each GPU in the last 15 minutes."""
    return _count_events(now, frozenset({EventKind.XID}))


def read_device_faults(now: datetime) -> list[Observation]:
    """Count how often each GPU was lost, needed a reset or had another driver, in the last 15 minutes."""
    return _count_events(now, _FAULTS)


def _count_events(now: datetime, kinds: frozenset[EventKind]) -> list[Observation]:
    events = gpu_events(SYSTEM, since_ms=to_ms(now - ERRORS_WITHIN)).filter(kind__in=kinds)
    found = Counter(events.order_by().values_list("node_id", "device_uuid"))
    return _observe(now, lambda device: found[device.node_id, device.gpu_uuid] + found[device.node_id, ""])


def read_unknown_processes(now: datetime) -> list[Observation]:
    """Count the processes on each GPU that belong to no allocation, seen in the last minute."""
    seen = gpu_processes(SYSTEM, since_ms=to_ms(now - _PROCESSES_WITHIN)).filter(allocation_id__isnull=True)
    found = Counter(seen.order_by().values_list("device_id", flat=True))
    return _observe(now, lambda device: found[device.pk])
