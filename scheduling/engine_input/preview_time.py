"""The time of one preview: how long its cycles may take together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

PREVIEW_S: Final = 10.0
"""The time that somebody who asked for a preview waits for its cycles together, in seconds."""


@dataclass(slots=True)
class _PreviewTime:
    within_s: float
    deadline: float | None = None


_current: ContextVar[_PreviewTime | None] = ContextVar("preview_time", default=None)


@contextmanager
def limit_preview(within_s: float) -> Iterator[None]:
    """Allow cycles of previews within the block, of `within_s` together, counted from the first on."""
    token = _current.set(_PreviewTime(within_s))
    try:
        yield
    finally:
        _current.reset(token)


def is_previewing() -> bool:
    """Return whether cycles of a preview may run here."""
    return _current.get() is not None


def start_deadline() -> float:
    """Return the monotonic moment until which the preview may take; it begins with the first call.

    Raises: RuntimeError outside of `limit_preview`.
    """
    found = _current.get()
    if found is None:
        raise RuntimeError("cycles of previews run in functions decorated with `previewing.preview`")
    if found.deadline is None:
        found.deadline = time.monotonic() + found.within_s
    return found.deadline
