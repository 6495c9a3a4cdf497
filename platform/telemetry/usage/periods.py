"""The time of a report: a calendar month in a time zone, with its days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.months import month_after, to_ms

_MONTH: Final = re.compile(r"(\d{4})-(\d{2})")
FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2199


@dataclass(frozen=True, slots=True)
class Period:
    """A month in a time zone. `bounds_ms` are the starts of its days and its end."""

    month: date
    zone: ZoneInfo
    bounds_ms: tuple[int, ...]

    @property
    def start_ms(self) -> int:
        return self.bounds_ms[0]

    @property
    def end_ms(self) -> int:
        return self.bounds_ms[-1]

    @property
    def days(self) -> list[date]:
        """The days of the month in order."""
        return [self.month + timedelta(days=n) for n in range(len(self.bounds_ms) - 1)]


def month_period(month: date, zone: ZoneInfo) -> Period:
    """Return the month whose first day is `month`, by the clocks of the time zone."""
    following = month_after(month)
    count = (following - month).days
    starts = [month + timedelta(days=n) for n in range(count)] + [following]
    bounds = tuple(to_ms(datetime(day.year, day.month, day.day, tzinfo=zone)) for day in starts)
    # In a zone that skipped a day, that day is empty, such as 30 December 2011 in Apia.
    assert all(first <= second for first, second in pairwise(bounds))  # noqa: S101
    return Period(month, zone, bounds)


def read_month(text: str, *, today: date) -> date:
    """Read a month such as `2026-10`; the default is the month of today. Raises: Invalid."""
    if not text:
        return today.replace(day=1)
    match = _MONTH.fullmatch(text)
    if match and FIRST_YEAR <= int(match[1]) <= LAST_YEAR and 1 <= int(match[2]) <= 12:
        return date(int(match[1]), int(match[2]), 1)
    message = _("Enter a month as YYYY-MM, for example 2026-10.")
    raise Invalid(message, errors=[FieldError("month", "FORMAT", message)])


def read_zone(text: str) -> ZoneInfo:
    """Read the name of a time zone. Raises: Invalid."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = _("Unknown time zone. Use an IANA name, for example Asia/Shanghai or UTC.")
        raise Invalid(message, errors=[FieldError("time_zone", "UNKNOWN", message)]) from error
