"""XID errors, as the driver reports them when they occur: one thread waits for those of all devices."""

from __future__ import annotations

import ctypes
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Final

import pynvml

from telemetry.agent.nvml.calls import SYSTEM, UNSUPPORTED, Calls, DeviceDown
from telemetry.agent.nvml.inventory import NvmlDevice

_WAIT_MS: Final = 5000
_PAUSE_S: Final = 5.0
XID_MEASURES: Final = ("xid", "xid_errors")
_KEY: Final = "nvmlDeviceRegisterEvents"
_FINAL: Final = UNSUPPORTED | {pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}


class XidWatch:
    """Collects XID errors from its creation on."""

    def __init__(self, calls: Calls, devices: list[NvmlDevice]) -> None:
        self._found: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._uuids: dict[int, str] = {}
        self._calls = calls
        events = calls.call(SYSTEM, "nvmlEventSetCreate")
        if events is None:
            for device in devices:
                calls.refuse(device.uuid, _KEY)
            return
        for device in devices:
            self._register(calls, device, events)
        if self._uuids:
            threading.Thread(target=self._wait, args=(events,), name="xid", daemon=True).start()

    def take(self) -> list[dict[str, Any]]:
        """Return the errors since the last call: device, code and monotonic time in seconds."""
        rows = []
        while True:
            try:
                rows.append(self._found.get_nowait())
            except Empty:
                return rows

    def find_unsupported(self, device: str) -> set[str]:
        """Return the measures of XID errors if the device does not report them."""
        return set(XID_MEASURES) if self._calls.is_refused(device, _KEY) else set()

    def _register(self, calls: Calls, device: NvmlDevice, events: Any) -> None:
        kind = pynvml.nvmlEventTypeXidCriticalError
        try:
            calls.call(device.uuid, _KEY, device.handle, kind, events)
        except DeviceDown:
            return  # the next poll reports it
        if not calls.is_refused(device.uuid, _KEY):
            self._uuids[_address(device.handle)] = device.uuid

    def _wait(self, events: Any) -> None:
        while True:
            try:
                self._keep(pynvml.nvmlEventSetWait_v2(events, _WAIT_MS))
            except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
                code = getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
                if code in _FINAL:
                    return  # the next poll meets the same error, and reports it
                if code != pynvml.NVML_ERROR_TIMEOUT:
                    time.sleep(_PAUSE_S)

    def _keep(self, event: Any) -> None:
        if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
            uuid = self._uuids.get(_address(event.device))
            self._found.put({"device": uuid, "code": int(event.eventData), "monotonic_s": time.monotonic()})


def _address(handle: Any) -> int:
    """Return the address to which a handle points; it is the same for each handle of one device."""
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)
