"""NVML calls with classified errors: unsupported, failed this time, device gone, driver replaced.

A call that a device does not support is recorded and not repeated: it costs time and, with some drivers, a
line in the kernel's log. The record ends with the process, so each enumeration tries the call again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pynvml

UNSUPPORTED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
SYSTEM: Final = ""
"""The device of calls that concern no device."""

Progress = Callable[[str, str], None]
"""Receives the device and the call that is about to be made."""


class DeviceDown(Exception):
    """The device answers no call; `kind` is `lost` or `reset-required`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class DriverReplaced(Exception):
    """The loaded library belongs to another driver version: only a new process can load the right one."""


def _ignore(device: str, call: str) -> None:
    """Do nothing with the call that is about to be made."""


class Calls:
    """Makes NVML calls; `errors` counts by call those that failed for a reason that may pass."""

    def __init__(self, progress: Progress = _ignore) -> None:
        self._progress = progress
        self._unsupported: set[tuple[str, str]] = set()
        self.errors: Counter[str] = Counter()

    def call(self, device: str, name: str, *arguments: Any, key: str = "") -> Any | None:
        """Return the result of a function of pynvml, or None without a result.

        `key`: the name under which an unsupported call is recorded, if the arguments make a difference.
        Raises: DeviceDown, DriverReplaced.
        """
        place = (device, key or name)
        if place in self._unsupported:
            return None
        function = getattr(pynvml, name, None)
        if function is None:  # another version of the binding
            self._unsupported.add(place)
            return None
        self._progress(device, name)
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            self._sort(place, name, error.value)
        except pynvml.NVMLLibraryMismatchError:  # not an NVMLError: the library lacks this call
            self._unsupported.add(place)
        except UnicodeDecodeError:  # a name or serial number in an invalid encoding
            self.errors[name] += 1
        return None

    def note_progress(self, device: str, name: str) -> None:
        """Record a call that is about to be made without `call`."""
        self._progress(device, name)

    def refuse(self, device: str, key: str) -> None:
        """Record that a device does not support something."""
        self._unsupported.add((device, key))

    def is_refused(self, device: str, key: str) -> bool:
        """Return whether a device is known not to support something."""
        return (device, key) in self._unsupported

    def _sort(self, place: tuple[str, str], name: str, code: int) -> None:
        if code in UNSUPPORTED:
            self._unsupported.add(place)
        elif code == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise DeviceDown("lost")
        elif code == pynvml.NVML_ERROR_RESET_REQUIRED:
            raise DeviceDown("reset-required")
        elif code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverReplaced
        elif code not in (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND):
            # pynvml raises "success" if there is no sample; neither code is a failure.
            self.errors[name] += 1
