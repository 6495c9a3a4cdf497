"""Reports of agents on the simulated nodes in addition to samples: facts, processes and events of GPUs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from datetime import timedelta
from typing import Final

from clusters.backends.simulated import chance
from clusters.backends.simulated.card_values import unsupported_measures
from clusters.backends.simulated.load import LoadCurves
from clusters.backends.simulated.state import ClusterState, read_state
from clusters.gpu.batches import (
    AgentReport,
    DeviceEvent,
    DeviceLink,
    EventKind,
    GpuFacts,
    MeasureBatch,
    NodeGpuFacts,
    ProcessValues,
)
from clusters.models import SimulatedDevice, SimulatedNode, SimulatedPod

STRAY_PERCENT: Final = 35.0
"""The compute that a process without a pod uses."""
_STRAY_NAME: Final = "/tmp/.cache/xmrig"  # noqa: S108 - the name of a process, no file that is written
_EVENTS_WITHIN: Final = timedelta(hours=1)
_NVLINKS: Final = {"A100": 12, "H100": 18, "H200": 18}
_DRIVER, _NVML, _CUDA = "580.95.05", "13.580.95.05", "13.0"


def read_reports(cluster_id: uuid.UUID) -> list[AgentReport]:
    """Return a report per node that answers, in three queries. Raises: BackendUnavailable."""
    moment = read_state(cluster_id)
    at_ms = round(moment.at.timestamp() * 1000)
    answering = _answering(moment)
    unlimited = {card.uuid for cards in answering.values() for card in cards if card.unlimited}
    processes = _pod_processes(moment, unlimited)
    reports = []
    for node, devices in answering.items():
        for device in devices:
            if device.stray_mib:
                processes[device.uuid].append(_stray_process(device))
        batch = MeasureBatch(
            node=node,
            at_ms=at_ms,
            processes=tuple(part for device in devices for part in processes[device.uuid]),
            events=tuple(_xid_event(device) for device in devices if _is_recent(device, moment)),
        )
        facts = NodeGpuFacts(_DRIVER, _NVML, _CUDA, tuple(_facts(device, devices) for device in devices))
        unsupported = {device.uuid: unsupported_measures(device.model) for device in devices}
        reports.append(AgentReport(node, at_ms, (batch,), facts, unsupported))
    return reports


def _answering(moment: ClusterState) -> dict[str, list[SimulatedDevice]]:
    nodes = SimulatedNode.unscoped.filter(simulation=moment.row, failed=False)
    silent = nodes.filter(silent_until__gt=moment.at).values("pk")
    rows = SimulatedDevice.unscoped.filter(node__in=nodes.values("pk")).exclude(node__in=silent)
    found: defaultdict[str, list[SimulatedDevice]] = defaultdict(list)
    for device in rows.select_related("node").order_by("node__name", "index"):
        found[device.node.name].append(device)
    return dict(found)


def _pod_processes(moment: ClusterState, unlimited: set[str]) -> defaultdict[str, list[ProcessValues]]:
    """Return one process per running pod and card, by the card's UUID."""
    found: defaultdict[str, list[ProcessValues]] = defaultdict(list)
    pods = SimulatedPod.unscoped.filter(simulation=moment.row, phase="running").exclude(started_ms=None)
    now_s = moment.at.timestamp()
    curves = LoadCurves(unlimited)
    for pod in pods.order_by("started_ms", "id"):
        age_s = now_s - moment.timeline.real_at(pod.started_ms or 0).timestamp()
        for device_uuid, cores, memory_mib in pod.devices:
            curve = curves.curve_of(pod.name, device_uuid, cores, pod.utilisation, running=True)
            values = {
                "utilization_percent": round(cores * curve.compute_share(now_s, age_s), 2),
                "memory_used_mib": float(curve.memory_used(memory_mib, age_s)),
            }
            pid = int(chance.random_between(2_000, 4_000_000, pod.uid, device_uuid))
            found[device_uuid].append(ProcessValues(device_uuid, pid, "python", values, pod_uid=pod.uid))
    return found


def _stray_process(device: SimulatedDevice) -> ProcessValues:
    values = {"utilization_percent": STRAY_PERCENT, "memory_used_mib": float(device.stray_mib)}
    pid = int(chance.random_between(2_000, 4_000_000, device.uuid, "stray"))
    return ProcessValues(device.uuid, pid, _STRAY_NAME, values)


def _is_recent(device: SimulatedDevice, moment: ClusterState) -> bool:
    return device.xid_at is not None and moment.at - device.xid_at <= _EVENTS_WITHIN


def _xid_event(device: SimulatedDevice) -> DeviceEvent:
    at_ms = 0 if device.xid_at is None else round(device.xid_at.timestamp() * 1000)
    return DeviceEvent(device.uuid, EventKind.XID, at_ms, device.xid_code)


def _facts(device: SimulatedDevice, beside: list[SimulatedDevice]) -> GpuFacts:
    links = next((number for family, number in _NVLINKS.items() if family in device.model), 0)
    others = [other for other in beside if other.pk != device.pk]
    half = max(len(beside) // 2, 1)
    return GpuFacts(
        uuid=device.uuid,
        name=device.model,
        serial=str(int(chance.random_between(10**12, 10**13, device.uuid, "serial"))),
        index=device.index,
        minor=device.index,
        pci_bus_id=f"00000000:{0x10 + 8 * device.index:02X}:00.0",
        numa_node=device.index // half,
        memory_mib=device.memory_mib,
        mig_enabled=False,
        links=tuple(
            DeviceLink(other.uuid, "nvlink", links)
            if links
            else DeviceLink(
                other.uuid, "same-cpu" if other.index // half == device.index // half else "system"
            )
            for other in others
        ),
    )
