"""The record of the NVML call in progress, in memory that two processes share."""

from __future__ import annotations

import mmap
from typing import Final

PROGRESS_BYTES: Final = 256


def write_note(note: mmap.mmap, device: str, call: str) -> None:
    """Record the device and the call that is about to be made."""
    text = f"{device} {call}".encode()[: PROGRESS_BYTES - 1]
    note[: len(text) + 1] = text + b"\0"


def read_note(note: mmap.mmap) -> tuple[str, str]:
    """Return the last recorded device and call."""
    text = bytes(note).split(b"\0", 1)[0].decode("utf-8", "replace")
    device, _, call = text.rpartition(" ")
    return device, call
