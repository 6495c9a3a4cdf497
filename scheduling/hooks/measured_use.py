"""The measured GPU memory of running tasks, which a package in a higher layer provides."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

MemoryUse = Callable[[uuid.UUID], Mapping[uuid.UUID, int]]
"""A function from an allocation to the MiB in use by device id, for devices with a recent measurement."""
_sources: list[MemoryUse] = []


def register_source(source: MemoryUse) -> None:
    """Register the source of measurements; the package that measures calls it once at start."""
    _sources[:] = [source]


def memory_in_use(allocation_id: uuid.UUID) -> Mapping[uuid.UUID, int]:
    """Return the measured memory of a task on each of its cards, in MiB; empty without recent
    measurements."""
    return _sources[0](allocation_id) if _sources else {}
