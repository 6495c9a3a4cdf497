"""Calls of NVML with their failures sorted: not supported, failed this time, device gone, driver replaced.

A call that a device does not support is remembered and not made again: it costs time and, with some drivers,
a line in the kernel's log. What is remembered ends with the process, so each enumeration tries anew.
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
"""Stands for the device in calls that concern none."""

Progress = Callable[[str, str], None]
"""Takes the device and the call that is about to be made."""


class DeviceDown(Exception):
    """The device answers no call; `kind` is `lost` or `reset-required`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class DriverReplaced(Exception):
    """The loaded library belongs to another version of the driver: only a new process helps."""


def _ignore(device: str, call: str) -> None:
    """Forget what is about to be called."""


class Calls:
    """Makes NVML's calls; `errors` counts those that failed for a reason that may pass, by call."""

    def __init__(self, progress: Progress = _ignore) -> None:
        self._progress = progress
        self._unsupported: set[tuple[str, str]] = set()
        self.errors: Counter[str] = Counter()

    def call(self, device: str, name: str, *arguments: Any, key: str = "") -> Any | None:
        """Return the answer of a function of pynvml, None where there is none.

        `key`: the name under which a refusal is remembered, where the arguments make a difference.
        Raises: DeviceDown, DriverReplaced.
        """
        place = (device, key or name)
        if place in self._unsupported:
            return None
        function = getattr(pynvml, name, None)
        if function is None:  # an older or newer binding
            self._unsupported.add(place)
            return None
        self._progress(device, name)
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            self._sort(place, name, error.value)
        except pynvml.NVMLLibraryMismatchError:  # no NVMLError: the library lacks this call
            self._unsupported.add(place)
        except UnicodeDecodeError:  # a name or serial number that is no text
            self.errors[name] += 1
        return None

    def note_progress(self, device: str, name: str) -> None:
        """Note a call that is about to be made without `call`."""
        self._progress(device, name)

    def refuse(self, device: str, key: str) -> None:
        """Remember that a device does not support something."""
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
            # Success as an error is pynvml's way to say that there is no sample; neither is a failure.
            self.errors[name] += 1
