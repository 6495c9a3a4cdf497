"""The time limit of a preview, which holds for all its cycles together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

PREVIEW_S: Final = 10.0
"""The time that all cycles of one preview may take together, in seconds."""


@dataclass(slots=True)
class _PreviewTime:
    within_s: float
    deadline: float | None = None


_current: ContextVar[_PreviewTime | None] = ContextVar("preview_time", default=None)


@contextmanager
def limit_preview(within_s: float) -> Iterator[None]:
    """Allow cycles of a preview within the block; they may take `within_s` seconds from the first one on."""
    token = _current.set(_PreviewTime(within_s))
    try:
        yield
    finally:
        _current.reset(token)


def is_previewing() -> bool:
    """Return whether cycles of a preview may run here."""
    return _current.get() is not None


def start_deadline() -> float:
    """Return the deadline of the preview on the monotonic clock; its time starts with the first call.

    Raises: RuntimeError outside of `limit_preview`.
    """
    found = _current.get()
    if found is None:
        raise RuntimeError("cycles of previews run in functions decorated with `previewing.preview`")
    if found.deadline is None:
        found.deadline = time.monotonic() + found.within_s
    return found.deadline
