"""Calendar months in UTC, by which GPU-hours are budgeted, as milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

CORE_MS_PER_GPU_HOUR: Final = 100 * 3600 * 1000
"""A whole card is 100 percent points, and an hour 3,600,000 ms."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Return the whole milliseconds since 1970, so that use adds up without fractions; rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(moment_ms: int) -> datetime:
    """Return the aware time in UTC of milliseconds since 1970."""
    return _EPOCH + moment_ms * _MILLISECOND


def month_of(moment: datetime) -> date:
    """Return the first day of the month."""
    return moment.astimezone(UTC).date().replace(day=1)


def month_after(month: date) -> date:
    """Return the first day of the next month."""
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def starts_at(month: date) -> datetime:
    """Return the beginning of a month."""
    return datetime(month.year, month.month, 1, tzinfo=UTC)


def start_ms(month: date) -> int:
    """Return the beginning of a month, in milliseconds."""
    return to_ms(starts_at(month))
