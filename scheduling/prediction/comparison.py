"""Compares paired forecasts of two snapshots: which jobs start earlier, start later or are preempted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any, Final

from scheduling.prediction.forecast import Forecast

SHORTEST_S: Final = 60.0
"""A start counts as another one from this difference on, in seconds."""


def compare_forecasts(
    as_is: Forecast, then: Forecast, *, running: Collection[str], drained: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the jobs that start earlier, start later or are preempted in `then`, with median times.

    A job starts earlier or later if it does in more than half of the futures and its median start differs in
    the same direction, both by more than `SHORTEST_S`. A running job is preempted if more than half of the
    futures evict it in `then` only; the `drained` ones are at once. `before` and `after` are seconds from
    now, None beyond the shorter of the two horizons.
    """
    futures = min(as_is.futures, then.futures)
    horizon_s = min(as_is.horizon_s, then.horizon_s)

    def read_seconds(found: Mapping[str, Sequence[float]], key: str) -> list[float]:
        seconds = found.get(key, [math.inf] * futures)[:futures]
        return [each if each <= horizon_s else math.inf for each in seconds]

    earlier, later = [], []
    for key in as_is.starts:
        before, after = read_seconds(as_is.starts, key), read_seconds(then.starts, key)
        listed = {"job": key, "before": _median(before), "after": _median(after)}
        if _is_mostly_later(after, before):
            earlier.append(listed)
        elif _is_mostly_later(before, after):
            later.append(listed)
    preempted: list[dict[str, Any]] = [{"job": key, "after": 0} for key in drained]
    for key in sorted(set(running) - set(drained)):
        before, after = read_seconds(as_is.evictions, key), read_seconds(then.evictions, key)
        only_then = [b for a, b in zip(before, after, strict=True) if math.isinf(a) and math.isfinite(b)]
        if 2 * len(only_then) > futures:
            preempted.append({"job": key, "after": _median(only_then)})
    return {"earlier": earlier, "later": later, "preempted": preempted}


def _is_mostly_later(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the second start is later in more than half of the futures, and in the median."""
    late = sum(b > a + SHORTEST_S for a, b in zip(first, second, strict=True))
    return 2 * late > len(first) and median(second) > median(first) + SHORTEST_S


def _median(seconds: Sequence[float]) -> int | None:
    middle = median(seconds)
    return round(middle) if math.isfinite(middle) else None
