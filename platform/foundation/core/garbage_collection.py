"""Keeps Python's search for reference cycles out of work that makes none."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_THRESHOLD: Final = 20_000
_OLDEST: Final = 2


def gc_freeze_loaded() -> None:
    """Freeze all objects loaded so far, and collect garbage less often.

    They stay, and each search for reference cycles would walk through all of them. A request or a scheduling
    cycle makes thousands of objects and keeps few: with Python's threshold of 700, it is searched hundreds of
    times.
    """
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 10, 10)


def gc_freeze_survivors(times: int) -> None:
    """Freeze the survivors of each of the next full collections, as `gc.freeze` does.

    Templates, catalogs and serializers are made by the first request that needs them, and stay: each full
    collection among 300,000 such objects stops the process for 140 ms. A reference cycle that is alive at
    that moment is never freed, hence a limited number of `times`.
    """
    left = times

    def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
        nonlocal left
        if phase == "stop" and info["generation"] == _OLDEST:
            gc.freeze()
            left -= 1
            if not left:
                gc.callbacks.remove(freeze_survivors)

    gc.callbacks.append(freeze_survivors)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the search for reference cycles within the block; they are freed after it.

    A snapshot has hundreds of thousands of objects that all stay. Searching them repeatedly during a cycle
    takes a tenth of its time, and finds nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
