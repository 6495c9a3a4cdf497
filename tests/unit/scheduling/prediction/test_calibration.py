"""Ranges that were too narrow become wider by what their outcomes require, and no wider."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.prediction.calibration import FEWEST_SCORES, score_open, score_range, widen_range
from scheduling.prediction.forecast import StartRange

RANGE = StartRange((100.0, 200.0, 300.0, 400.0, 500.0), 86_400.0)


def test_a_range_that_is_too_narrow_is_widened_to_its_level() -> None:
    """Waits that spread far beyond the range: afterwards nine of ten new ones lie within."""
    random = Random(1)
    waits = [300.0 * 4.0 ** random.gauss(0.0, 1.0) for _ in range(600)]
    scores = [score_range(RANGE, wait) for wait in waits[:200]]

    predicted = widen_range(RANGE, scores)

    held = sum(predicted.contains_start(wait) for wait in waits[200:]) / 400
    likely = sum(predicted.contains_likely(wait) for wait in waits[200:]) / 400
    assert 0.85 < held < 0.95
    assert 0.43 < likely < 0.6


@given(st.lists(st.floats(0.0, 1e6), min_size=FEWEST_SCORES, max_size=250))
def test_bounds_stay_in_order_whatever_happened(waits: list[float]) -> None:
    predicted = widen_range(RANGE, [score_range(RANGE, wait) for wait in waits])

    known = [seconds for seconds in predicted.seconds if seconds is not None]
    assert known == sorted(known)
    assert predicted.quantile_at(0.5) == RANGE.quantile_at(0.5)


def test_few_outcomes_change_nothing() -> None:
    misses = [score_range(RANGE, 1e6)] * (FEWEST_SCORES - 1)

    assert widen_range(RANGE, misses) == RANGE


@pytest.mark.parametrize(("seconds", "counts"), [(499.0, False), (501.0, True)])
def test_a_job_that_still_waits_counts_once_it_is_beyond_its_range(seconds: float, counts: bool) -> None:
    score = score_open(RANGE, seconds)

    assert (score is not None) == counts
    assert score is None or score.is_miss


def test_what_lies_beyond_the_horizon_counts_as_the_horizon() -> None:
    never = StartRange((None,) * 5, 86_400.0)

    assert not score_range(never, 90_000.0).is_miss
    assert score_range(never, 60.0).is_miss
    assert score_open(never, 1e9) is None
