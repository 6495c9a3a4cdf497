"""Reserves memory for the frames of deep calls.

CPython 3.11 keeps the frames of functions in chunks of 16 KiB, and frees each chunk once it is empty. If a
call crosses the end of a chunk, a loop around it allocates and frees memory in each iteration: nested
templates did so thousands of times a second, which took a sixth of the processor time of pages. A frame that
needs more gets a larger chunk, and the frames of all its calls fit into the rest of it. In later versions it
is a call like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call_with_room(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function with half a MiB left in the chunk for its frames, more than most calls ever need."""
    return function(*args, **kwargs)


# Half a MiB and a bit, in words: the next power of two is one MiB. Unused memory is never touched.
call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=(1 << 16) + 64)
