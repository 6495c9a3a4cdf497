"""Calendar months in UTC, by which GPU-hours are budgeted, as milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

CORE_MS_PER_GPU_HOUR: Final = 100 * 3600 * 1000
"""A whole card is 100 percent points, and an hour 3,600,000 ms."""


def to_ms(moment: datetime) -> int:
    """Whole milliseconds, so that use adds up without a fraction."""
    return int(moment.timestamp() * 1000)


def month_of(moment: datetime) -> date:
    """The first day of the month."""
    return moment.astimezone(UTC).date().replace(day=1)


def month_after(month: date) -> date:
    """The first day of the month after."""
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def starts_at(month: date) -> datetime:
    """When a month begins."""
    return datetime(month.year, month.month, 1, tzinfo=UTC)


def start_ms(month: date) -> int:
    """When a month begins, in milliseconds."""
    return to_ms(starts_at(month))
