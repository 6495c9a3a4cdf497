"""Widens ranges by their earlier outcomes: conformal calibration (Romano, Patterson and Candès, 2019) per
queue.

The score of a bound is the logarithm of the factor by which the bound, as a time from the prediction, should
have been moved outwards to include the start; if it is negative, the bound could have been moved inwards.
Each bound is moved outwards by the quantile of the latest scores at its level, and never inwards: jobs of one
queue often wait for the same event, so a period of good predictions says little about the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduling.prediction.forecast import LEVELS, StartRange

FLOOR_S: Final = 60.0
"""The time that is added to bounds and waits before their logarithm, so that seconds matter little."""
FEWEST_SCORES, MOST_SCORES = 20, 200
_WIDEST: Final = 2.5


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one prediction's bounds without the median, the earliest first."""

    bounds: tuple[float, float, float, float]

    @property
    def is_miss(self) -> bool:
        """True if the start was outside of the 90 % range."""
        return self.bounds[0] > 0 or self.bounds[-1] > 0


def score_range(found: StartRange, seconds: float) -> Scores:
    """Return the scores of a simulated range for a start after so many seconds."""
    low, likely_low, _, likely_high, high = found.seconds
    at = math.log(seconds + FLOOR_S)

    def below(bound: float | None) -> float:
        return math.log((found.horizon_s if bound is None else bound) + FLOOR_S) - at

    def above(bound: float | None) -> float:
        return -math.inf if bound is None else at - math.log(bound + FLOOR_S)

    return Scores((below(low), below(likely_low), above(likely_high), above(high)))


def score_open(found: StartRange, seconds: float) -> Scores | None:
    """Return the scores of a job that still waits after so many seconds, which are lower bounds of its final
    scores; None while it may still start within its range.
    """
    high = found.seconds[-1]
    return score_range(found, seconds) if high is not None and seconds > high else None


def widen_range(found: StartRange, scores: Sequence[Scores]) -> StartRange:
    """Return the range widened by the latest scores, given oldest first; unchanged if there are too few."""
    latest = scores[-MOST_SCORES:]
    if len(latest) < FEWEST_SCORES:
        return found
    low, likely_low, median, likely_high, high = found.seconds
    shares = 1.0 - LEVELS[0], 1.0 - LEVELS[1], LEVELS[3], LEVELS[4]
    by = [_quantile([score.bounds[place] for score in latest], share) for place, share in enumerate(shares)]
    first, last = _shift(low, -by[0]), _shift(high, by[3])
    return StartRange(
        (
            first,
            _later(first, _shift(likely_low, -by[1])),
            median,
            _earlier(last, _shift(likely_high, by[2])),
            last,
        ),
        found.horizon_s,
    )


def _quantile(scores: Sequence[float], share: float) -> float:
    ranked = sorted(scores)
    place = min(math.ceil(share * (len(ranked) + 1)), len(ranked)) - 1
    return min(max(ranked[place], 0.0), _WIDEST)


def _shift(seconds: float | None, by: float) -> float | None:
    return None if seconds is None else max((seconds + FLOOR_S) * math.exp(by) - FLOOR_S, 0.0)


def _later(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times; None means never."""
    return other if one is None else one if other is None else min(one, other)
