"""Reports of agents are parsed as untrusted input."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.gpu.batches import DeviceEvent, DeviceLink, EventKind
from clusters.gpu.report import ReportInvalid, read_report

NOW = 1_700_000_000_000
REPORT: dict[str, Any] = {
    "version": 1, "node": "gpu-1", "sent_at_ms": NOW,
    "batches": [{
        "at_ms": NOW, "interval_ms": 15_000,
        "devices": [{"uuid": "GPU-1", "parent": None,
                     "values": {"utilization_percent": 37.0, "power_w": 210}}],
        "slices": [{"device": "GPU-1", "pod_uid": "u", "container": "main", "values": {"idle_s": 0}}],
        "processes": [{"device": "GPU-1", "pid": 4711, "name": "python3", "pod_uid": None,
                       "container_id": "0" * 64, "values": {"memory_used_mib": 5}}],
        "events": [{"device": "GPU-1", "kind": "xid", "code": 79, "at_ms": NOW}],
    }],
    "inventory": {"driver": "550.1", "nvml": "12", "cuda": "13.0", "devices": [
        {"uuid": "GPU-1", "name": "H100", "serial": "1", "index": 0, "minor": 0, "pci_bus_id": "0000:01:00.0",
         "numa_node": -1, "memory_mib": 81920, "mig_enabled": False, "parent": None,
         "links": [{"to": "GPU-2", "kind": "nvlink", "count": 18}]}]},
    "unsupported": {"GPU-1": ["encoder_percent", "of-tomorrow"]},
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the report with one value replaced."""
    report = copy.deepcopy(REPORT)
    at: Any = report
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = value
    return report


def test_a_report_is_read_whole() -> None:
    report = read_report(REPORT, NOW)
    (batch,) = report.batches
    assert (report.node, batch.node, batch.at_ms, batch.interval_ms) == ("gpu-1", "gpu-1", NOW, 15_000)
    assert batch.devices[0].values == {"utilization_percent": 37.0, "power_w": 210.0}
    assert (batch.slices[0].pod_uid, batch.processes[0].pid) == ("u", 4711)
    assert batch.events == (DeviceEvent("GPU-1", EventKind.XID, NOW, 79),)
    assert report.inventory is not None
    assert report.inventory.devices[0].links == (DeviceLink("GPU-2", "nvlink", 18),)
    assert report.unsupported == {"GPU-1": ("encoder_percent",)}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 2), ("node", ""), ("node", "a\nb"), ("node", 5), ("sent_at_ms", -1), ("sent_at_ms", True),
        ("batches", {}), ("batches.0", 5), ("batches.0.at_ms", NOW + 300_001), ("batches.0.at_ms", 1.5),
        ("batches.0.interval_ms", 0), ("batches.0.devices.0.uuid", "no spaces"),
        ("batches.0.devices.0.values", []), ("batches.0.devices.0.values.power_w", None),
        ("batches.0.devices.0.values.power_w", "5"), ("batches.0.devices.0.values.power_w", True),
        ("batches.0.devices.0.values.power_w", math.nan), ("batches.0.devices.0.values.power_w", math.inf),
        ("batches.0.devices.0.values.power_w", -0.1), ("batches.0.devices.0.values.power_w", 10**400),
        ("batches.0.devices.0.values.utilization_percent", 130),
        ("batches.0.processes.0.values.memory_used_mib", 2**31),
        ("batches.0.slices.0.pod_uid", None), ("batches.0.processes.0.pid", -1),
        ("batches.0.processes.0.container_id", "../../etc"), ("batches.0.events.0.kind", "exploded"),
        ("batches.0.events.0.at_ms", NOW * 2), ("inventory.devices.0.links.0.kind", "string"),
        ("inventory.devices.0.mig_enabled", 1), ("unsupported.GPU-1", [5]),
    ],
)  # fmt: skip
def test_the_first_wrong_field_is_named(path: str, value: Any) -> None:
    with pytest.raises(ReportInvalid) as caught:
        read_report(changed(path, value), NOW)
    assert caught.value.path == path


def test_what_is_newer_than_the_platform_is_passed_over() -> None:
    report = changed("batches.0.devices.0.values.flux_capacitance", "1.21 GW")
    assert "flux_capacitance" not in read_report(report | {"mood": "good"}, NOW).batches[0].devices[0].values


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANY = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)
PATHS = [
    "version", "node", "sent_at_ms", "batches", "batches.0", "batches.0.devices", "batches.0.devices.0",
    "batches.0.devices.0.values", "batches.0.devices.0.values.power_w", "batches.0.slices.0.device",
    "batches.0.processes.0", "batches.0.events.0.code",
    "inventory", "inventory.devices.0.links", "unsupported",
]  # fmt: skip


@given(st.sampled_from(PATHS), ANY)
def test_any_value_is_read_or_refused(path: str, value: Any) -> None:
    try:
        report = read_report(changed(path, value), NOW)
    except ReportInvalid:
        return
    for batch in report.batches:
        for part in (*batch.devices, *batch.slices, *batch.processes):
            assert all(0 <= number < math.inf for number in part.values.values())
