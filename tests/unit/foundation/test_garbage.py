"""Within the block no garbage collection runs, and afterwards everything is as before."""

from __future__ import annotations

import gc

import pytest

from foundation.core.garbage_collection import gc_freeze_loaded, gc_freeze_survivors, gc_paused


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
        gc_freeze_loaded()
        assert not {id(each) for each in gc.get_objects()} & {id(each) for each in made}
        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*known)


def test_what_survives_the_first_full_collections_is_frozen() -> None:
    callbacks = list(gc.callbacks)
    gc.collect()
    frozen = gc.get_freeze_count()
    gc_freeze_survivors(2)
    try:
        gc.collect(1)
        assert gc.get_freeze_count() == frozen, "a young generation has yet to show what stays"
        counts = []
        kept = []
        for _ in range(3):
            kept.append([[] for _ in range(1000)])
            gc.collect()
            counts.append(gc.get_freeze_count())
        assert counts[0] >= frozen + 1000
        assert counts[1] >= counts[0] + 1000
        assert counts[2] == counts[1], "no more than twice"
        assert gc.callbacks == callbacks
    finally:
        gc.callbacks[:] = callbacks
