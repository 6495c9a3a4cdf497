"""Temporary quota that is in effect or upcoming, on one axis of days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from frontend.components.time_axis import TEXT_WIDTH, AxisTick, TimeAxis, TimeBar
from frontend.pages.requests import labels
from frontend.texts import formats
from quotas.models import Override, OverrideState
from quotas.selectors.changes.override import override_keys, read_overrides
from tenants.models import User

MOST: Final = 50
_SHORTEST: Final = timedelta(days=1)
_STEPS: Final = tuple(timedelta(hours=hours) for hours in (3, 6, 12, 24, 48, 168, 336, 720, 1440, 2160))
_TICKS: Final = 6


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """One transfer, its `amounts` by pool; `words` describe the bar."""

    name: str
    amounts: Sequence[str]
    words: str
    bar: TimeBar


@dataclass(frozen=True, slots=True)
class LoanCalendar:
    """The transfers by their start, `now` in percent of the axis. `left_out` counts those not drawn."""

    rows: Sequence[CalendarRow]
    ticks: Sequence[AxisTick]
    now: float
    left_out: int


def describe_calendar(viewer: User, now: datetime) -> LoanCalendar | None:
    """Describe the transfers of which the viewer may see a side; None if all of them are over."""
    rows = override_keys(viewer).filter(state__in=(OverrideState.PLANNED, OverrideState.ACTIVE))
    found = list(rows.order_by("starts_at", "ends_at", "pk"))
    if not found:
        return None
    # Of those that are not drawn no more than the number is shown.
    shown = sorted(read_overrides(found[:MOST]), key=lambda loan: (loan.starts_at, loan.ends_at, loan.pk))
    begin = min(now, *(loan.starts_at for loan in shown))
    end = max(now + _SHORTEST, *(loan.ends_at for loan in shown))
    axis = TimeAxis(begin, end)
    return LoanCalendar(
        rows=[_row(loan, axis) for loan in shown],
        ticks=_list_ticks(axis),
        now=axis.find_place(now),
        left_out=len(found) - len(shown),
    )


def _row(loan: Override, axis: TimeAxis) -> CalendarRow:
    color = "fill-used" if loan.state == OverrideState.ACTIVE else "time-start likely"
    first, last = map(formats.format_absolute, (loan.starts_at, loan.ends_at))
    return CalendarRow(
        name=f"{labels.node_word(loan.lender)} → {labels.node_word(loan.borrower)}",
        amounts=labels.loan_lines(loan.amounts.all()),
        words=_(", ").join((str(labels.LOANS[loan.state][0]), f"{first} – {last}")),
        bar=axis.build_bar(color, loan.starts_at, loan.ends_at),
    )


def _list_ticks(axis: TimeAxis) -> list[AxisTick]:
    """List days of UTC, or hours of a short axis."""
    step = next((each for each in _STEPS if (axis.end - axis.begin) / each <= _TICKS), _STEPS[-1])
    moment = axis.begin.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found: list[AxisTick] = []
    while moment <= axis.end:
        place = axis.find_place(moment)
        if moment >= axis.begin and (not found or place - found[-1].at >= TEXT_WIDTH):
            text = f"{moment:%m-%d}" if step >= timedelta(days=1) else f"{moment:%m-%d %H:%M}"
            found.append(AxisTick(place, text))
        moment += step
    return found
