"""Queries to a Prometheus server and what it answers, as text and JSON. Pure: nothing is sent here.

Queries for measurements are built in this module, of names that are declared and values that are quoted.
Those of alert rules are written by platform admins and sent as they are (`alerts.metrics.promql`). A window
is read instead of one moment: the answer then tells when each sample was really scraped, and a target that
is gone does not seem to live on for the five minutes of Prometheus' look-back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from telemetry.sources.samples import RawSample

SERIES_MAX: Final = 400_000
POINTS_MAX: Final = 11_000
"""As Prometheus itself bounds a range query."""
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_SPECIAL: Final = re.compile(r"[.+*?^$()\[\]{}|\\/-]")
_YEAR_3000_S: Final = 32_503_680_000.0


def quote_value(text: str) -> str:
    """A text as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def quote_pattern(text: str) -> str:
    """A text as a regular expression that matches itself alone."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def is_label(name: str) -> bool:
    """Tell whether a matcher may name this label; `__name__` is the query's own."""
    return _LABEL.fullmatch(name) is not None and not name.startswith("__")


def match_equal(label: str, value: str) -> str:
    """The matcher `label="value"`."""
    _require_label(label)
    return f"{label}={quote_value(value)}"


def match_any(label: str, values: Iterable[str]) -> str:
    """The matcher for one of several values; of none it matches nothing."""
    _require_label(label)
    ordered = sorted(set(values))
    if len(ordered) == 1:
        return match_equal(label, ordered[0])
    # An empty set must never match series without the label, as an empty pattern would.
    pattern = "|".join(quote_pattern(value) for value in ordered) if ordered else "[^\\x00-\\x{10FFFF}]"
    return f"{label}=~{quote_value(pattern)}"


def _require_label(label: str) -> None:
    if label != "__name__" and not is_label(label):
        raise ValueError(f"{label!r} is no name of a label")


def select_window(names: Sequence[str], matchers: Mapping[str, str], window_s: int) -> str:
    """The query for all samples of these metrics within the last `window_s` seconds."""
    for name in names:
        if not _METRIC.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric")
    parts = [match_any("__name__", names)]
    parts += [match_equal(label, value) for label, value in sorted(matchers.items())]
    return f"{{{', '.join(parts)}}}[{window_s:d}s]"


def newest_samples(data: Any) -> list[RawSample]:
    """The newest sample of each series of a matrix; what has another shape is left out."""
    found = []
    for labels, name, points in _series(data):
        newest = max((point for point in points if point.at_ms is not None), key=_time_of, default=None)
        if newest is not None:
            found.append(RawSample(name, labels, newest.value, newest.at_ms))
    return found


def scrape_interval_ms(data: Any) -> int:
    """The longest time between the last two samples of a series; 0 where no series has two.

    One that was missed makes it longer than it is, which then bridges the hole that it made.
    """
    longest = 0
    for _labels, _name, points in _series(data):
        times = sorted({point.at_ms for point in points})
        if len(times) > 1:
            longest = max(longest, times[-1] - times[-2])
    return longest


@dataclass(frozen=True, slots=True)
class _Point:
    at_ms: int
    value: float


def _time_of(point: _Point) -> int:
    return point.at_ms


@dataclass(frozen=True, slots=True)
class RangeSeries:
    """One series of a range query: its labels, and a value by time in milliseconds. No value is a gap."""

    labels: Mapping[str, str]
    points: Mapping[int, float]


def read_range(data: Any) -> list[RangeSeries]:
    """The series of a range query; values that are no numbers are gaps."""
    return [
        RangeSeries(labels, {point.at_ms: point.value for point in points if math.isfinite(point.value)})
        for labels, _name, points in _series(data)
    ]


def _series(data: Any) -> Iterator[tuple[dict[str, str], str, list[_Point]]]:
    if not isinstance(data, dict) or data.get("resultType") not in ("matrix", "vector"):
        return
    rows = data.get("result")
    if not isinstance(rows, list):
        return
    for row in rows[:SERIES_MAX]:
        if not isinstance(row, dict) or not isinstance(row.get("metric"), dict):
            continue
        labels = {str(key): value for key, value in row["metric"].items() if isinstance(value, str)}
        values = row.get("values") if "values" in row else [row.get("value")]
        if isinstance(values, list):
            points = [point for pair in values[:POINTS_MAX] if (point := _point(pair)) is not None]
            yield labels, labels.pop("__name__", ""), points


def _point(pair: Any) -> _Point | None:
    """A pair of seconds and text. NaN and infinities are numbers here; whoever reads them decides."""
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
        return None
    at, text = pair
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _YEAR_3000_S:
        return None
    if "_" in text or len(text) > 64:
        return None
    try:
        return _Point(round(at * 1000), float(text))
    except ValueError:
        return None
