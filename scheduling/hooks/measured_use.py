"""The measured use of running tasks, from the layer above that measures it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

MemoryUse = Callable[[uuid.UUID], Mapping[uuid.UUID, int]]
"""By the allocation: the MiB in use by device id, as far as there is a fresh reading."""
_sources: list[MemoryUse] = []


def register_source(source: MemoryUse) -> None:
    """Called once at start by the package that measures."""
    _sources[:] = [source]


def memory_in_use(allocation_id: uuid.UUID) -> Mapping[uuid.UUID, int]:
    """The MiB that a task was just measured to use of each of its cards; empty where nothing is known."""
    return _sources[0](allocation_id) if _sources else {}
