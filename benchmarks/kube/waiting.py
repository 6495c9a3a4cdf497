"""Waiting for a count, with lines of progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

_LINE_EVERY_S: Final = 5.0
_POLL_S: Final = 0.1


def wait_for_count(count: Callable[[], int], wanted: int, what: str, within_s: float = 600.0) -> None:
    """Wait until `count` reaches `wanted`. Raises: RuntimeError when it does not."""
    begun = reported = time.monotonic()
    while (found := count()) < wanted:
        now = time.monotonic()
        if now - begun > within_s:
            raise RuntimeError(f"{found} of {wanted} {what} after {within_s:g} s")
        if now - reported > _LINE_EVERY_S:
            print_progress(f"{found} of {wanted} {what}")
            reported = now
        time.sleep(_POLL_S)


def print_progress(text: str) -> None:
    """Print a line of progress on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stderr.flush()
