"""Room for the frames of deep calls.

CPython 3.11 keeps the frames of functions in pieces of 16 KiB, and gives each back to the system once it is
empty. If a call crosses the end of a piece, a loop around it takes and returns memory in each round: nested
templates did so thousands of times a second, a sixth of the processor time of pages. A frame that wants more
gets a larger piece, and the frames of all that it calls fit into what it leaves. To later versions it is a
call like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call_with_room(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function where half a MiB is left for the frames below, more than most calls ever need."""
    return function(*args, **kwargs)


# Half a MiB and a bit, in words: the next power of two is a whole one. What is not used is never touched.
call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=(1 << 16) + 64)
