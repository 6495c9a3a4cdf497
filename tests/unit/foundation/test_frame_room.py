"""`call_with_room` passes calls on unchanged, and loops below it allocate no memory at any stack depth."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from foundation.core.frame_room import call_with_room

ROUNDS = 400


def test_arguments_answers_and_errors_pass() -> None:
    assert call_with_room(divmod, 7, 2) == (3, 1)
    assert call_with_room(dict, a=1) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        call_with_room(divmod, 1, 0)


def leaf() -> None:
    """Do nothing."""


def loop_at(depth: int) -> None:
    if depth:
        loop_at(depth - 1)
    else:
        for _ in range(ROUNDS):
            leaf()


def count_faults() -> int:
    """Return the most page faults that a loop at any of many depths caused."""
    most = 0
    for depth in range(2, 200):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        loop_at(depth)
        most = max(most, resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
    return most


def test_no_loop_takes_memory_in_each_round() -> None:
    with ThreadPoolExecutor(1) as own_stack:
        assert own_stack.submit(call_with_room, count_faults).result() < ROUNDS / 2
