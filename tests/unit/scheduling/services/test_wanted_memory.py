"""The memory of a slice by its use: within its request, above its use, without oscillation."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduling.services.resizing.wanted_memory import (
    LEND_PAUSE_S,
    MEASURED_S,
    RETURN_PAUSE_S,
    SliceMemory,
    find_wanted_memory,
)

STEP_S = 30
HOURS = 4


def age(now: int, at: int | None) -> float | None:
    return None if at is None else float(now - at)


@given(
    asked=st.integers(1, 80_000),
    legs=st.lists(st.tuples(st.integers(0, 100), st.integers(1, 60)), min_size=1, max_size=40),
    dead=st.sets(st.integers(0, HOURS * 120), max_size=20),
)
def test_random_use_keeps_what_is_used_and_changes_rarely(
    asked: int, legs: list[tuple[int, int]], dead: set[int]
) -> None:
    """Use in percent of what was asked, each for some steps; `dead` are steps without a measurement."""
    curve = [asked * percent // 100 for percent, steps in legs for _ in range(steps)][: HOURS * 120]
    held, since, lent_at, returned_at = asked, 0, None, None
    lent, returned = list[int](), list[int]()
    for step, used in enumerate(curve):
        now = step * STEP_S
        if step in dead:
            since = now + STEP_S
            continue
        window = curve[max(0, step - MEASURED_S // STEP_S + 1) : step + 1]
        recent = max(curve[max(0, step - 2) : step + 1])
        wanted = find_wanted_memory(
            SliceMemory(
                asked=asked,
                held=held,
                peak=max(window),
                recent=recent,
                measured_s=now - since,
                lent_s=age(now, lent_at),
                returned_s=age(now, returned_at),
            )
        )
        if wanted is None:
            # A slice near its limit gets all that it requested.
            assert held == asked or 100 * used < 85 * held
            continue
        assert 0 < wanted <= asked
        assert wanted != held
        assert wanted >= max(window) or wanted == asked
        if wanted < held:
            assert now - since >= MEASURED_S
            lent.append(now)
            lent_at = now
        else:
            assert wanted == asked
            returned.append(now)
            returned_at = now
        held = wanted
    assert all(later - at >= RETURN_PAUSE_S for at in returned for later in lent if later > at)
    assert all(later - at >= LEND_PAUSE_S for at, later in pairwise(lent))
    assert len(returned) <= 1 + HOURS
