"""Milliseconds since 1970, the grains of time, and how long each is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

TICK_MS: Final = 10_000
SLOT_MS: Final = 15_000
"""The length of a tick in clusters with agents."""
MINUTE_MS: Final = 60_000
TEN_MINUTES_MS: Final = 600_000
TWO_HOURS_MS: Final = 7_200_000
GRAINS_MS: Final = (MINUTE_MS, TEN_MINUTES_MS, TWO_HOURS_MS)

READING_RETENTION: Final = timedelta(hours=2)
TICK_RETENTION: Final = timedelta(hours=24)
MINUTE_RETENTION: Final = timedelta(days=2)
TEN_MINUTE_RETENTION: Final = timedelta(days=30)
TWO_HOUR_RETENTION: Final = timedelta(days=400)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def to_ms(at: datetime) -> int:
    """Return an aware time as whole milliseconds since 1970, rounded down."""
    return (at - _EPOCH) // _MILLISECOND


def from_ms(at_ms: int) -> datetime:
    """Return milliseconds since 1970 as an aware time in UTC."""
    return _EPOCH + at_ms * _MILLISECOND


def span_ms(length: timedelta) -> int:
    """Return a length of time in whole milliseconds."""
    return length // _MILLISECOND


def floor_ms(at_ms: int, step_ms: int) -> int:
    """Return the start of the interval of `step_ms` in which `at_ms` lies."""
    return at_ms - at_ms % step_ms
