"""Python's search for reference cycles, kept out of work that makes none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLD: Final = 20_000


def gc_pass_over_code() -> None:
    """Leave all that there is now out of the search for reference cycles, and search less often.

    What is loaded by now stays: each search would walk through all of it. A request or a round of the
    scheduler makes thousands of objects and keeps few: with Python's 700, it is searched hundreds of times.
    """
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 10, 10)


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
