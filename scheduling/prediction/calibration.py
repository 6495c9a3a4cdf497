"""Ranges learn from their outcomes: conformal widening (Romano, Patterson and Candès, 2019), queue by queue.

A score is the logarithm of the factor by which a bound, as a time from the prediction, would have had to be
moved for the start to lie within the range; below zero the range could have been narrower. Ranges are widened
by the quantile of the latest scores that a range of their level has to reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduling.prediction.forecast import StartRange

WIDE, LIKELY = 0.9, 0.5
"""The two ranges of a prediction: the share of jobs that start within each."""
FLOOR_S: Final = 60.0
"""A range is never judged by less than a minute."""
FEWEST_SCORES, MOST_SCORES = 20, 200
_NARROWEST, _WIDEST = 0.0, 2.5


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one prediction, for the 90 % range and for the 50 % range."""

    wide: float
    likely: float


def score_range(found: StartRange, seconds: float) -> Scores:
    """Return the scores of a range as it was simulated, for a start after so many seconds."""
    low, likely_low, _, likely_high, high = found.seconds
    horizon = found.horizon_s
    return Scores(_score(low, high, seconds, horizon), _score(likely_low, likely_high, seconds, horizon))


def score_open(found: StartRange, seconds: float) -> Scores | None:
    """Return the scores of a job that still waits after so many seconds, which are the least that they will
    be; None while it may still start within its range.
    """
    high = found.seconds[-1]
    return score_range(found, seconds) if high is not None and seconds > high else None


def recalibrate(found: StartRange, scores: Sequence[Scores]) -> StartRange:
    """Return the range scaled by the latest scores, oldest first; too few of them change nothing."""
    latest = scores[-MOST_SCORES:]
    if len(latest) < FEWEST_SCORES:
        return found
    wide = _quantile([score.wide for score in latest], WIDE)
    likely = _quantile([score.likely for score in latest], LIKELY)
    low, likely_low, median, likely_high, high = found.seconds
    outer = _shift(low, -wide), _shift(high, wide)
    inner = _shift(likely_low, -likely), _shift(likely_high, likely)
    return StartRange(
        (
            outer[0],
            _later(outer[0], inner[0]),
            median,
            _earlier(outer[1], inner[1]),
            outer[1],
        ),
        found.horizon_s,
    )


def _score(low: float | None, high: float | None, seconds: float, horizon_s: float) -> float:
    at = math.log(seconds + FLOOR_S)
    below = math.log((horizon_s if low is None else low) + FLOOR_S) - at
    above = -math.inf if high is None else at - math.log(high + FLOOR_S)
    return min(max(below, above), _WIDEST)


def _quantile(scores: Sequence[float], level: float) -> float:
    ranked = sorted(scores)
    place = min(math.ceil(level * (len(ranked) + 1)), len(ranked)) - 1
    return min(max(ranked[place], _NARROWEST), _WIDEST)


def _shift(seconds: float | None, by: float) -> float | None:
    return None if seconds is None else max((seconds + FLOOR_S) * math.exp(by) - FLOOR_S, 0.0)


def _later(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two, of which None is never."""
    return other if one is None else one if other is None else min(one, other)
