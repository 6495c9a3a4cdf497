"""The time limit of a preview, which holds for all its cycles together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from foundation.core.clock import start_work_stopwatch

PREVIEW_S: Final = 10.0
"""The CPU time that all cycles of one preview may take together, in seconds."""
MOST_WALL_PER_WORK: Final = 4.0
"""On a busy machine, a preview may take this multiple of `PREVIEW_S` in wall time. With the time for which it
may wait for a process, this is below the minute after which proxies commonly give up."""


@dataclass(slots=True)
class _PreviewTime:
    within_s: float
    stopwatch: Callable[[], float] | None = None


_current: ContextVar[_PreviewTime | None] = ContextVar("preview_time", default=None)


@contextmanager
def limit_preview(within_s: float) -> Iterator[None]:
    """Allow cycles of a preview within the block; they may take `within_s` seconds of CPU time, which begin
    with the first one."""
    token = _current.set(_PreviewTime(within_s))
    try:
        yield
    finally:
        _current.reset(token)


def is_previewing() -> bool:
    """Return whether cycles of a preview may run here."""
    return _current.get() is not None


def start_stopwatch() -> tuple[Callable[[], float], float]:
    """Return the stopwatch of the preview and the deadline on it; its time starts with the first call.

    Raises: RuntimeError outside of `limit_preview`.
    """
    found = _current.get()
    if found is None:
        raise RuntimeError("cycles of previews run in functions decorated with `previewing.preview`")
    if found.stopwatch is None:
        found.stopwatch = start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK)
    return found.stopwatch, found.within_s
