"""Intervals of a run are those that counting every instant by itself gives."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.metering.intervals import (
    Hold,
    attempt_intervals,
    billed_percent,
    borrowed_percent,
    count_borrowed_gpus,
    gpu_percent,
    lost_since_ms,
)

FLAVORS = [uuid.UUID(int=1), uuid.UUID(int=2)]
SPAN = 24


@st.composite
def holds(draw: st.DrawFn) -> list[Hold]:
    """Tasks of one run: all begin together, each with an end and at most one resize in between."""
    begin = draw(st.integers(0, 6))
    found = []
    for _ in range(draw(st.integers(0, 5))):
        flavor, sliced = draw(st.sampled_from(FLAVORS)), draw(st.booleans())
        cores = draw(st.integers(1, 4)) * 10
        end = draw(st.integers(begin, SPAN))
        resized = draw(st.integers(begin, end))
        for since, until in ((begin, resized), (resized, end)):
            found.append(Hold(flavor, sliced, since, until, cores, cores + draw(st.integers(0, 3))))
    return found


Amounts = tuple[int, int, int, int]


def at_each_instant(
    held: list[Hold], borrowed: dict[uuid.UUID, int], lost: tuple[int, int]
) -> dict[tuple[uuid.UUID, int], Amounts]:
    """(cores, billed, borrowed, lost) by flavor and instant, counted one instant after the other."""
    admitted = min((hold.begin_ms for hold in held if hold.begin_ms < hold.end_ms), default=0)
    found: dict[tuple[uuid.UUID, int], Amounts] = {}
    for flavor in FLAVORS:
        mine = [hold for hold in held if hold.flavor_id == flavor]
        first = sum(hold.cores for hold in mine if hold.begin_ms == admitted < hold.end_ms)
        own = max(0, first - borrowed[flavor])
        for at in range(SPAN):
            now = [hold for hold in mine if hold.begin_ms <= at < hold.end_ms]
            cores = sum(hold.cores for hold in now)
            if cores:
                beyond = min(borrowed[flavor], max(0, cores - own))
                found[flavor, at] = (
                    cores,
                    sum(hold.billed for hold in now),
                    beyond,
                    cores if lost[0] <= at < lost[1] else 0,
                )
    return found


@given(
    holds(),
    st.tuples(st.integers(0, 100), st.integers(0, 100)),
    st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(lambda pair: (min(pair), max(pair))),
)
def test_the_intervals_of_a_run_hold_what_every_instant_holds(
    held: list[Hold], beyond: tuple[int, int], lost: tuple[int, int]
) -> None:
    borrowed = dict(zip(FLAVORS, beyond, strict=True))
    sums: dict[tuple[uuid.UUID, int], Counter[str]] = {}
    seen: set[tuple[uuid.UUID, bool, int]] = set()
    for one in attempt_intervals(held, borrowed=borrowed, lost=lost):
        assert one.begin_ms < one.end_ms
        for at in range(one.begin_ms, one.end_ms):
            assert (one.flavor_id, one.sliced, at) not in seen, "intervals of one kind overlap"
            seen.add((one.flavor_id, one.sliced, at))
            amounts = {"cores": one.cores, "billed": one.billed, "borrowed": one.borrowed, "lost": one.lost}
            sums.setdefault((one.flavor_id, at), Counter()).update(amounts)

    found = {
        key: (amounts["cores"], amounts["billed"], amounts["borrowed"], amounts["lost"])
        for key, amounts in sums.items()
    }
    assert found == at_each_instant(held, borrowed, lost)


def test_a_run_that_holds_the_same_all_the_time_is_one_interval() -> None:
    held = [Hold(FLAVORS[0], False, 0, 10, 100, 100), Hold(FLAVORS[0], False, 0, 10, 100, 100)]

    (only,) = attempt_intervals(held, borrowed={FLAVORS[0]: 50})

    assert (only.begin_ms, only.end_ms, only.cores, only.borrowed) == (0, 10, 200, 50)


def test_a_slice_is_billed_for_the_larger_one_of_compute_and_memory() -> None:
    charge = {"gpu.cards": 2, "gpu.cores": 60, "gpu.memory": 2 * 20_001}

    assert billed_percent(charge, sliced=True, card_memory_mib=40_000) == 101
    assert billed_percent(charge, sliced=True, card_memory_mib=80_000) == 60
    assert billed_percent({**charge, "gpu.cores": 200}, sliced=False, card_memory_mib=10) == 200
    assert gpu_percent({"gpu.cards": 3}) == 300
    assert gpu_percent({"cpu": 3}) == 0


SLICE = {"a/gpu.cards": 1, "a/gpu.cores": 25, "a/gpu.memory": 9000, "a/cpu": 2000}
WHOLE = {"b/gpu.cards": 4, "b/gpu.cores": 400}


@pytest.mark.parametrize(
    ("borrowed", "held", "percent"),
    [
        ({}, SLICE, 0),
        ({"a/cpu": 2000, "a/gpu.memory": 9000}, SLICE, 0),
        ({"a/gpu.cores": 25, "a/gpu.memory": 9000}, SLICE, 25),
        ({"a/gpu.cards": 1, "a/gpu.cores": 25}, SLICE, 25),
        ({"a/gpu.cores": 10, "a/gpu.cards": 1}, SLICE, 10),
        ({"a/gpu.cards": 1}, SLICE, 25),
        ({"a/gpu.cards": 1}, {"a/gpu.cards": 2, "a/gpu.cores": 50}, 25),
        ({"b/gpu.cards": 3}, WHOLE, 300),
        ({"b/gpu.cards": 3}, {"b/gpu.cards": 4}, 300),
        ({"b/gpu.cards": 3, "b/gpu.cores": 300}, WHOLE, 300),
        ({"b/gpu.cards": 3, "a/gpu.cores": 25}, SLICE | WHOLE, 325),
        ({"b/gpu.cards": 3}, {}, 300),
    ],
)
def test_a_borrowed_slice_is_its_share_of_a_gpu(
    borrowed: Mapping[str, int], held: Mapping[str, int], percent: int
) -> None:
    assert borrowed_percent(borrowed, held) == percent
    assert count_borrowed_gpus(borrowed, held) == percent / 100


def test_work_after_the_last_checkpoint_is_lost() -> None:
    assert lost_since_ms(started_ms=1_000, ended_ms=26_000, checkpoint_interval_s=10) == 21_000
    assert lost_since_ms(started_ms=1_000, ended_ms=26_000, checkpoint_interval_s=None) == 1_000
    assert lost_since_ms(started_ms=None, ended_ms=26_000, checkpoint_interval_s=None) == 26_000


def test_tasks_that_hold_one_pool_all_the_time_are_put_together_as_all_others() -> None:
    dice = random.Random(2)
    for _ in range(300):
        flavor, begin = uuid.uuid4(), dice.randrange(1, 1000)
        pool = (flavor, dice.random() < 0.5, begin, begin + dice.randrange(1, 1000))
        held = [
            Hold(*pool, dice.randrange(0, 300), dice.randrange(0, 300)) for _ in range(dice.randint(1, 4))
        ]
        borrowed = dice.choice([{}, {flavor: dice.randrange(0, 900)}, {uuid.uuid4(): 5}])
        lost = dice.choice([None, tuple(sorted(dice.choices(range(2200), k=2)))])
        later = Hold(uuid.uuid4(), False, 5000, 5001, 100, 100)
        both = attempt_intervals([*held, later], borrowed=borrowed, lost=lost)
        usual = [one for one in both if one.flavor_id == flavor]
        assert attempt_intervals(held, borrowed=borrowed, lost=lost) == usual
