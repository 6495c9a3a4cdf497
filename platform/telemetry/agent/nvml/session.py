"""One initialisation of NVML: the enumerated devices, and polls of all of them, one after another."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import pynvml

from telemetry.agent.nvml.calls import SYSTEM, Calls, DeviceDown, DriverReplaced
from telemetry.agent.nvml.events import XidWatch
from telemetry.agent.nvml.inventory import (
    Instance,
    NvmlDevice,
    describe_inventory,
    enumerate_devices,
    refresh_instances,
)
from telemetry.agent.nvml.processes import ProcessReader
from telemetry.agent.nvml.rates import GPM_MEASURES, FieldReader, GpmReader
from telemetry.agent.nvml.readers import (
    DEVICE_READERS,
    INSTANCE_READERS,
    PCIE_READERS,
    Alternatives,
    find_unsupported,
    read_values,
)


class NvmlMissing(Exception):
    """There is no library or no driver; `code` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(str(pynvml.NVMLError(code)))
        self.code = code


class NvmlSession:
    """The devices of one initialisation of NVML.

    Raises: NvmlMissing, DriverReplaced.
    """

    def __init__(self, calls: Calls, skip: frozenset[int] = frozenset()) -> None:
        self._calls = calls
        calls.note_progress(SYSTEM, "nvmlInit")
        start_nvml()
        self._devices, self._down = enumerate_devices(calls, skip)
        self._fields, self._gpm, self._processes = FieldReader(calls), GpmReader(calls), ProcessReader(calls)
        self._xids = XidWatch(calls, self._devices)
        self._inventory_due = True

    def poll(self) -> dict[str, Any]:
        """Return the present measurements in the format for the agent's process. Raises: DriverReplaced."""
        devices: list[dict[str, Any]] = []
        processes: list[dict[str, Any]] = []
        fallen: dict[str, str] = {}
        for device in self._devices:
            try:
                rows, found = self._poll_device(device)
            except DeviceDown as error:
                fallen[device.uuid] = error.kind
                self._down[device.index] = error.kind
                continue
            devices.extend(rows)
            processes.extend(asdict(process) for process in found)
        self._devices = [device for device in self._devices if device.uuid not in fallen]
        return {
            "monotonic_s": time.monotonic(),
            "devices": devices,
            "processes": processes,
            "fallen": fallen,
            "down": {str(index): kind for index, kind in self._down.items()},
            "xids": self._xids.take(),
            "unsupported": self._find_unsupported(),
            "errors": dict(self._calls.errors),
            "inventory": self._take_inventory(),
        }

    def _poll_device(self, device: NvmlDevice) -> tuple[list[dict[str, Any]], list[Any]]:
        calls, uuid, handle = self._calls, device.uuid, device.handle
        if refresh_instances(calls, device):
            self._inventory_due = True
        values = read_values(calls, uuid, handle, DEVICE_READERS)
        values.update(self._fields.read(uuid, handle, tuple(device.links)))
        values.update(self._gpm.read(uuid, handle))
        if "pcie_tx_mib_s" not in values:
            values.update(read_values(calls, uuid, handle, PCIE_READERS))
        rows: list[dict[str, Any]] = [{"uuid": uuid, "parent": None, "index": device.index, "values": values}]
        rows.extend(self._poll_instance(device, instance) for instance in device.instances)
        found, are_all = self._processes.read(device, values.get("utilization_percent"))
        return [{**row, "lists_processes": are_all} for row in rows], found

    def _poll_instance(self, device: NvmlDevice, instance: Instance) -> dict[str, Any]:
        values = read_values(self._calls, instance.uuid, instance.handle, INSTANCE_READERS)
        measured = self._gpm.read(instance.uuid, device.handle, instance.gpu)
        values.update({name: value for name, value in measured.items() if name in GPM_MEASURES})
        if "graphics_active_percent" in values:
            values["utilization_percent"] = values["graphics_active_percent"]
        return {"uuid": instance.uuid, "parent": device.uuid, "index": device.index, "values": values}

    def _find_unsupported(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for device in self._devices:
            refused = self._find_refused(device.uuid, (*DEVICE_READERS, *PCIE_READERS))
            refused |= self._fields.find_unsupported(device.uuid) | self._xids.find_unsupported(device.uuid)
            found[device.uuid] = sorted(refused)
            for instance in device.instances:
                found[instance.uuid] = sorted(self._find_refused(instance.uuid, INSTANCE_READERS))
        return found

    def _find_refused(self, uuid: str, readers: Alternatives) -> set[str]:
        return find_unsupported(self._calls, uuid, readers) | self._gpm.find_unsupported(uuid)

    def _take_inventory(self) -> dict[str, Any] | None:
        if not self._inventory_due:
            return None
        try:
            inventory = describe_inventory(self._calls, self._devices)
        except DeviceDown:
            return None  # the next poll leaves that device out
        self._inventory_due = False
        return inventory


def start_nvml() -> None:
    """Initialise NVML. Raises: NvmlMissing, DriverReplaced."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverReplaced from error
        raise NvmlMissing(error.value) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise NvmlMissing(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from error
