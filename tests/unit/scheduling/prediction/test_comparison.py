"""Which jobs start earlier, start later or are preempted between two paired forecasts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median

import pytest

from scheduling.prediction.comparison import SHORTEST_S, compare_forecasts
from scheduling.prediction.forecast import Forecast

HORIZON_S = 86_400.0
NEVER = math.inf


def made(
    starts: Sequence[float] = (), evictions: Sequence[float] = (), horizon_s: float = HORIZON_S
) -> Forecast:
    return Forecast(
        futures=max(len(starts), len(evictions)),
        horizon_s=horizon_s,
        runs=0,
        arrivals=0,
        cycles=0,
        starts={"job": starts} if starts else {},
        evictions={"job": evictions} if evictions else {},
    )


def changed(before: Sequence[float], after: Sequence[float]) -> str:
    """Return the kind under which the job is listed; empty if it isn't."""
    found = compare_forecasts(made(before), made(after), running=(), drained=())
    kinds = [kind for kind, jobs in found.items() if jobs]
    assert len(kinds) <= 1
    return "".join(kinds)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([1_000.0] * 16, [0.0] * 8 + [29_900.0] * 8, id="half earlier, half later"),
        pytest.param([NEVER] * 16, [0.0] * 8 + [NEVER] * 8, id="half within the horizon"),
        pytest.param([1_000.0] * 8 + [NEVER] * 8, [500.0] * 8 + [NEVER] * 8, id="half earlier, no median"),
        pytest.param([0.0] * 7 + [1e3] * 9, [0.0] * 7 + [1e3 - SHORTEST_S] * 9, id="a minute at most"),
        pytest.param([0.0, 1e3, 5e3, 6e3, 7e3], [5e3, 4e3, 4.95e3, 5e3, 6e3], id="the median hardly differs"),
    ],
)
def test_a_job_without_a_common_direction_is_not_listed(before: list[float], after: list[float]) -> None:
    assert changed(before, after) == changed(after, before) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1_000.0] * 16, [0.0] * 9 + [30_000.0] * 7),
        ([NEVER] * 16, [0.0] * 9 + [NEVER] * 7),
        ([1_000.0] * 5, [900.0] * 5),
    ],
)
def test_a_job_is_listed_in_the_direction_of_most_futures(before: list[float], after: list[float]) -> None:
    assert (changed(before, after), changed(after, before)) == ("earlier", "later")


def test_what_is_listed_agrees_with_its_times_in_random_futures() -> None:
    random, listed = Random(3), 0
    for _round in range(3_000):
        size = random.randint(8, 17)
        before, after = (
            [random.choice((0.0, 50.0, 100.0, 500.0, 9_000.0, NEVER)) for _ in range(size)] for _ in "ab"
        )
        kind = changed(before, after)
        if kind:
            first, second = (after, before) if kind == "earlier" else (before, after)
            listed += 1
            assert median(first) + SHORTEST_S < median(second)
            assert sum(a < b for a, b in zip(first, second, strict=True)) > size / 2
    assert listed > 500


@pytest.mark.parametrize(
    ("before", "after", "listed_at"),
    [
        pytest.param([10.0] * 8 + [NEVER] * 8, [10.0] * 9 + [NEVER] * 7, None, id="in one future more"),
        pytest.param([10.0] * 8 + [NEVER] * 8, [NEVER] * 8 + [10.0] * 8, None, id="in half of them"),
        pytest.param([10.0] * 7 + [NEVER] * 9, [900.0] * 7 + [40.0] * 9, 40, id="in most only with it"),
        pytest.param([], [NEVER] * 7 + [20.0] * 9, 20, id="never without it"),
    ],
)
def test_a_job_is_preempted_if_most_futures_evict_it_only_with_the_change(
    before: list[float], after: list[float], listed_at: int | None
) -> None:
    as_is = made([NEVER] * 16, before)
    found = compare_forecasts(as_is, made([NEVER] * 16, after), running={"job"}, drained=())
    assert [one["after"] for one in found["preempted"]] == ([] if listed_at is None else [listed_at])


def test_the_shorter_horizon_and_the_drained_jobs_count() -> None:
    """A start beyond the shorter of two horizons counts as later than all others."""
    found = compare_forecasts(
        made([5_000.0] * 8),
        made([4_000.0] * 9, horizon_s=3_600.0),
        running={"job", "other"},
        drained=["other"],
    )
    assert found == {"earlier": [], "later": [], "preempted": [{"job": "other", "after": 0}]}
