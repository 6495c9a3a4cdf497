"""The period that a page's charts show, from the address.

`?range=24h` is a preset that ends now, `?from=…&to=…` is a custom period, and `&compare=1` also shows the
previous period of the same length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.core import clock
from frontend.texts import formats
from telemetry.series.windows.window import MAX_RANGE

RANGES: Final = {
    "1h": timedelta(hours=1),
    "3h": timedelta(hours=3),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
CUSTOM: Final = "custom"
_SHORTEST: Final = timedelta(minutes=1)
# The refresh interval of a chart in seconds: about once per new point.
_EVERY_S: Final = {"1h": 20, "3h": 30, "6h": 60, "24h": 300, "7d": 1800, "30d": 3600}
_OTHER_EVERY_S: Final = 60


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A period with the presets to choose from: (key, label).

    `problem`: why a requested custom period was not used.
    """

    key: str
    start: datetime
    end: datetime
    choices: Sequence[tuple[str, str]]
    compare: bool = False
    problem: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters that select this period."""
        if self.key == CUSTOM:
            named = {"from": format_moment(self.start), "to": format_moment(self.end)}
        else:
            named = {"range": self.key}
        return named | ({"compare": "1"} if self.compare else {})

    @property
    def is_custom(self) -> bool:
        return self.key == CUSTOM

    @property
    def every_s(self) -> int:
        """The refresh interval of a chart in seconds; 0 for a period that does not move."""
        return 0 if self.is_custom else _EVERY_S.get(self.key, _OTHER_EVERY_S)

    @property
    def before(self) -> tuple[datetime, datetime]:
        """The previous period of the same length."""
        return self.start - (self.end - self.start), self.start


def read_time_range(
    request: HttpRequest,
    default: str = "24h",
    *,
    end: datetime | None = None,
    wholes: Mapping[str, tuple[str, datetime]] | None = None,
) -> TimeRange:
    """Read the period from the address; unknown or invalid values give the default.

    Presets end at `end` or now. `wholes`: presets of the page, by key a label and the start.
    """
    until = end or clock.now()
    starts = {key: start for key, (_label, start) in (wholes or {}).items()}
    starts |= {key: until - length for key, length in RANGES.items()}
    choices = [(key, label) for key, (label, _start) in (wholes or {}).items()]
    choices += [(key, label_of_range(key)) for key in RANGES]
    compare = request.GET.get("compare") == "1"
    key = request.GET.get("range", default)
    key = key if key in starts else default
    preset = TimeRange(key, starts[key], until, choices, compare)
    asked = [request.GET.get(name, "") for name in ("from", "to")]
    if not any(asked):
        return preset
    first, last = (read_moment(text) for text in asked)
    problem = _problem(first, last)
    if first is None or last is None or problem:
        return TimeRange(key, starts[key], until, choices, compare, problem)
    return TimeRange(CUSTOM, first, last, choices, compare)


def _problem(first: datetime | None, last: datetime | None) -> str:
    if first is None or last is None:
        return _("Enter start and end, for example 2026-03-01T10:00.")
    if last - first < _SHORTEST:
        return _("The end must be at least one minute after the start.")
    if first > clock.now():
        return _("The start must be in the past.")
    if last - first > MAX_RANGE:
        return _("The range exceeds %(days)s days.") % {"days": MAX_RANGE.days}
    return ""


def read_moment(text: str) -> datetime | None:
    """Return the time that a text names, in UTC unless it has a zone; None for an invalid text."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_moment(moment: datetime) -> str:
    """Return a time as addresses contain it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def label_of_range(key: str) -> str:
    """Return the label of a preset in the reader's language: `6 h`."""
    words = formats.unit_words()
    return words[key[-1]] % {"n": key[:-1]}
