"""Python's search for reference cycles, kept out of work that makes none."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_THRESHOLD: Final = 20_000
_OLDEST: Final = 2


def gc_freeze_loaded() -> None:
    """Freeze what is loaded by now, and collect garbage less often.

    It stays, and each search for reference cycles would walk through all of it. A request or a round of the
    scheduler makes thousands of objects and keeps few: with Python's 700, it is searched hundreds of times.
    """
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 10, 10)


def gc_freeze_survivors(times: int) -> None:
    """Freeze what survives each of the next full collections, as `gc.freeze` does.

    Templates, catalogs and serializers are made by the first request that needs them, and stay: a full
    collection among 300,000 such objects stops the process for 140 ms, again and again. A cycle that is alive
    at that moment is never freed, hence a limited number of `times`.
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

    A snapshot is hundreds of thousands of objects that all stay. To walk through them again and again
    while a cycle decides takes a tenth of its time, and finds nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
