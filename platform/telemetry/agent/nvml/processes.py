"""The processes on a device, with the memory and the utilization of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.agent.nvml.calls import Calls
from telemetry.agent.nvml.inventory import NvmlDevice

MIB: Final = 1 << 20
_COMPUTE: Final = "nvmlDeviceGetComputeRunningProcesses"
_LISTS: Final = (
    _COMPUTE,
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
_UTILIZATION: Final = "nvmlDeviceGetProcessUtilization"
_WINDOW_US: Final = 15_000_000
_MOST_MIB: Final = 1 << 24  # 16 TiB


@dataclass(slots=True)
class Process:
    """One process on one device or MIG instance."""

    device: str
    pid: int
    values: dict[str, float] = field(default_factory=dict)


class ProcessReader:
    """Reads the processes of devices; stores the time of the last sample read of each."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._seen_us: dict[str, int] = {}
        self._measuring: set[str] = set()

    def read(self, device: NvmlDevice, utilization: float | None) -> tuple[list[Process], bool]:
        """Return the processes on a device, and whether these are all of them.

        `utilization`: the device's, in percent. Raises: DeviceDown.
        """
        found, are_all = self._list_processes(device)
        samples = self._read_samples(device)
        if samples is None:
            return list(found.values()), are_all
        if any(sample["utilization_percent"] for sample in samples.values()):
            self._measuring.add(device.uuid)
        # Some drivers have the call and never return a sample. Then a missing sample proves nothing, unless
        # the device is idle as a whole.
        is_zero_known = device.uuid in self._measuring or utilization == 0
        for process in found.values():
            sample = samples.get(process.pid)
            if sample is not None:
                process.values.update(sample)
            elif is_zero_known:
                process.values["utilization_percent"] = 0.0
        return list(found.values()), are_all

    def _list_processes(self, device: NvmlDevice) -> tuple[dict[tuple[int, str], Process], bool]:
        uuids = {(each.gpu, each.compute): each.uuid for each in device.instances}
        found: dict[tuple[int, str], Process] = {}
        are_all = True
        for name in _LISTS:
            rows = self._calls.call(device.uuid, name, device.handle)
            if rows is None and (name == _COMPUTE or not self._calls.is_refused(device.uuid, name)):
                are_all = False
            for row in rows or []:
                uuid = uuids.get((row.gpuInstanceId, row.computeInstanceId), device.uuid)
                if device.instances and uuid == device.uuid:  # of an unknown instance
                    are_all = False
                process = found.setdefault((row.pid, uuid), Process(uuid, int(row.pid)))
                if row.usedGpuMemory is not None and row.usedGpuMemory // MIB < _MOST_MIB:
                    used = max(row.usedGpuMemory / MIB, process.values.get("memory_used_mib", 0.0))
                    process.values["memory_used_mib"] = used
        return found, are_all

    def _read_samples(self, device: NvmlDevice) -> dict[int, dict[str, float]] | None:
        """Return the newest sample of each process since the last call; None if the call is unsupported."""
        now_us = int(time.time() * 1_000_000)
        since = self._seen_us.get(device.uuid, now_us - _WINDOW_US)
        rows = self._calls.call(device.uuid, _UTILIZATION, device.handle, since)
        if rows is None and self._calls.is_refused(device.uuid, _UTILIZATION):
            return None
        newest: dict[int, Any] = {}
        for row in rows or []:
            if since < row.timeStamp and (row.pid not in newest or newest[row.pid].timeStamp < row.timeStamp):
                newest[row.pid] = row
        if newest:
            # A time in the future would hide all samples until then.
            self._seen_us[device.uuid] = min(max(int(row.timeStamp) for row in newest.values()), now_us)
        return {pid: values for pid, row in newest.items() if (values := _percentages(row))}


def _percentages(row: Any) -> dict[str, float]:
    """Return the utilization in a sample; empty if a value is no percentage."""
    columns = {
        "utilization_percent": row.smUtil,
        "encoder_percent": row.encUtil,
        "decoder_percent": row.decUtil,
    }
    return {name: float(value) for name, value in columns.items()} if max(columns.values()) <= 100 else {}
