"""The time range of a chart, cut into buckets of equal length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.errors import Invalid
from telemetry.store.times import (
    GRAINS_MS,
    MINUTE_MS,
    MINUTE_RETENTION,
    TEN_MINUTE_RETENTION,
    TEN_MINUTES_MS,
    TICK_MS,
    TWO_HOUR_RETENTION,
    TWO_HOURS_MS,
    floor_ms,
    from_ms,
    span_ms,
    to_ms,
)

POINTS: Final = 240
MAX_POINTS: Final = 1000
MAX_RANGE: Final = TWO_HOUR_RETENTION

# The default is 20 s and not 10, so that a slightly late tick does not look like a gap.
_STEPS_S: Final = (20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
            86_400)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """Buckets `first` to `last` (inclusive), numbered by whole steps since 1970.

    `grain_ms`: the grain of the roll-ups from which it is read, a whole number of them in each bucket; 0 for
    readings and ticks.
    """

    start: datetime
    end: datetime
    step_ms: int
    grain_ms: int

    @property
    def first(self) -> int:
        return to_ms(self.start) // self.step_ms

    @property
    def last(self) -> int:
        return (to_ms(self.end) - 1) // self.step_ms

    @property
    def from_ms(self) -> int:
        """The start of the first bucket."""
        return self.first * self.step_ms

    @property
    def until_ms(self) -> int:
        """The end of the last bucket, exclusive."""
        return (self.last + 1) * self.step_ms

    def bucket_times(self) -> Iterator[tuple[int, datetime]]:
        """Yield the number and start of each bucket."""
        for bucket in range(self.first, self.last + 1):
            yield bucket, from_ms(bucket * self.step_ms)


def _auto_step_ms(length: timedelta, points: int) -> int:
    for step in _STEPS_S:
        if length <= timedelta(seconds=step * points):
            return step * 1000
    return -(-span_ms(length) // points // TWO_HOURS_MS) * TWO_HOURS_MS


def _checked(start: datetime, end: datetime, step_s: int | None, points: int) -> None:
    if start >= end:
        raise Invalid(_("start must be before end."))
    if end - start > MAX_RANGE:
        days = {"days": MAX_RANGE.days}
        raise Invalid(_("The range exceeds %(days)s days.") % days, numbers=days)
    if not 1 <= points <= MAX_POINTS:
        raise Invalid(_("The number of samples must be from 1 to %(most)s.") % {"most": MAX_POINTS})
    if step_s is None:
        return
    if step_s < TICK_MS // 1000:
        raise Invalid(_("step must be at least %(seconds)s seconds.") % {"seconds": TICK_MS // 1000})
    if end - start > timedelta(seconds=step_s * MAX_POINTS):
        message = _("step is too small for this range: more than %(most)s points.")
        raise Invalid(message % {"most": MAX_POINTS})


def window_of(
    start: datetime, end: datetime, step_s: int | None, *, retention: timedelta, points: int = POINTS
) -> Window:
    """Divide `start` to `end` into buckets of `step_s` seconds, or of a length that gives about `points`.

    `retention` is how long the fine rows are kept: an earlier range is read from roll-ups that are still kept
    for all of it, and its step becomes a multiple of theirs. The future is cut off.
    Raises: Invalid for a range that is empty, too long, or would have too many points.
    """
    _checked(start, end, step_s, points)
    now = clock.now()
    end = min(end, now)
    start = min(start, end - timedelta(milliseconds=1))
    step_ms = _auto_step_ms(end - start, points) if step_s is None else step_s * 1000
    finest = _finest_grain(now - start, retention)
    if finest:
        step_ms = -(-step_ms // finest) * finest
    grain_ms = max((grain for grain in GRAINS_MS if step_ms % grain == 0), default=0)
    return Window(from_ms(floor_ms(to_ms(start), step_ms)), end, step_ms, grain_ms)


def _finest_grain(age: timedelta, retention: timedelta) -> int:
    """Return the finest grain that is kept for so long; 0 for the fine rows."""
    if age <= retention:
        return 0
    if age <= MINUTE_RETENTION:
        return MINUTE_MS
    return TEN_MINUTES_MS if age <= TEN_MINUTE_RETENTION else TWO_HOURS_MS
