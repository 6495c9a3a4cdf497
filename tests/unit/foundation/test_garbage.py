"""Nothing is searched for cycles inside, and everything is as before outside."""

from __future__ import annotations

import gc

import pytest

from foundation.core.garbage_collection import gc_pass_over_code, gc_paused


@pytest.mark.parametrize("before", [True, False])
def test_the_search_rests_and_is_as_before_afterwards(before: bool) -> None:
    known = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(KeyError), gc_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is before
    finally:
        (gc.enable if known else gc.disable)()


def test_what_is_there_is_passed_over_and_searches_are_rarer_than_pythons() -> None:
    known = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        made = [[] for _ in range(1_000)]
        gc_pass_over_code()
        assert not {id(each) for each in gc.get_objects()} & {id(each) for each in made}
        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*known)
