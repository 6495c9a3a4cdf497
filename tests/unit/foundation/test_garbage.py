"""Nothing is searched for cycles inside, and everything is as before outside."""

from __future__ import annotations

import gc

import pytest

from foundation.core.garbage_collection import gc_paused


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
