"""Growth is reported where it exists, and never from noise, a single outlier or too little history."""

from __future__ import annotations

import random

import pytest

from telemetry.usage.forecast import DAY_MS, DAYS, HOUR_MS, LEAST, find_growth, past_means


def test_a_line_is_found_exactly_and_an_outlier_does_not_move_it() -> None:
    assert find_growth([10.0 * n for n in range(10)]) == pytest.approx((10.0, 95.0))
    bent = [10.0 * n for n in range(10)]
    bent[4] = 500.0
    slope, level = find_growth(bent) or (0.0, 0.0)
    assert slope == pytest.approx(10.0, abs=1.0)
    assert level == pytest.approx(95.0, abs=10.0)
    assert (find_growth([100.0 - n for n in range(8)]) or (0, 0))[0] == pytest.approx(-1.0)


def test_noise_and_short_histories_have_no_growth() -> None:
    assert find_growth([1.0, 2.0, 3.0, 4.0]) is None
    assert find_growth([5.0] * 14) is None
    dice = random.Random(7)
    told = sum(find_growth([dice.gauss(100, 30) for _ in range(DAYS)]) is not None for _ in range(500))
    assert told < 25, "growth in noise is told in less than 5 % of cases"


def test_means_are_those_of_looking_at_every_hold_for_every_day() -> None:
    dice, now = random.Random(3), 100 * DAY_MS + 12_345
    for _ in range(200):
        begins = [now - dice.randrange(1, 20 * DAY_MS) for _ in range(dice.randint(1, 30))]
        held = [(begin, begin + dice.randrange(1, 3 * DAY_MS), dice.randrange(900)) for begin in begins]
        means, step = past_means(held, now)
        expected = []
        for number in range(len(means), 0, -1):
            since, until = now - number * step, now - (number - 1) * step
            times = (max(0, min(end, until) - max(begin, since)) * cores for begin, end, cores in held)
            expected.append(sum(times) / step)
        assert means == expected


def test_means_begin_with_the_first_hold_and_are_of_whole_days_or_hours() -> None:
    now = 100 * DAY_MS
    assert past_means([], now) == ([], DAY_MS)
    held = [(now - 6 * DAY_MS - 5 * HOUR_MS, now - 5 * DAY_MS, 100), (now - DAY_MS, now + DAY_MS, 400)]
    assert past_means(held, now) == ([100.0, 0.0, 0.0, 0.0, 0.0, 400.0], DAY_MS)
    means, step = past_means([(now - 3 * HOUR_MS - 1, now, 50)], now)
    assert (means, step) == ([50.0] * 3, HOUR_MS)
    assert len(past_means([(0, now, 50)], now)[0]) == DAYS
    assert LEAST > 3
