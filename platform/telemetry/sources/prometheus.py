"""Queries to a Prometheus server and its answers, as text and JSON. Pure: nothing is sent here.

Queries for measurements are built in this module, from declared names and quoted values. Those of alert rules
are written by platform admins and sent as they are (`alerts.metrics.promql`). A window is read instead of one
moment: the answer then contains the scrape time of each sample, and a target that is gone does not seem to
live on for the five minutes of Prometheus' look-back.
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
"""The most points of a range query, as in Prometheus itself."""
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_SPECIAL: Final = re.compile(r"[.+*?^$()\[\]{}|\\/-]")
_YEAR_3000_S: Final = 32_503_680_000.0


def quote_value(text: str) -> str:
    """Return a text as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def quote_pattern(text: str) -> str:
    """Return a regular expression that matches only this text."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def is_label(name: str) -> bool:
    """Return whether a matcher may name this label; `__name__` is reserved for the query."""
    return _LABEL.fullmatch(name) is not None and not name.startswith("__")


def match_equal(label: str, value: str) -> str:
    """Return the matcher `label="value"`."""
    _require_label(label)
    return f"{label}={quote_value(value)}"


def match_any(label: str, values: Iterable[str]) -> str:
    """Return the matcher for one of several values; without values it matches nothing."""
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
    """Return the query for all samples of these metrics within the last `window_s` seconds."""
    for name in names:
        if not _METRIC.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric")
    parts = [match_any("__name__", names)]
    parts += [match_equal(label, value) for label, value in sorted(matchers.items())]
    return f"{{{', '.join(parts)}}}[{window_s:d}s]"


def newest_samples(data: Any) -> list[RawSample]:
    """Return the newest sample of each series of a matrix; malformed series are left out."""
    found = []
    for labels, name, points in _series(data):
        newest = max((point for point in points if point.at_ms is not None), key=_time_of, default=None)
        if newest is not None:
            found.append(RawSample(name, labels, newest.value, newest.at_ms))
    return found


def scrape_interval_ms(data: Any) -> int:
    """Return the longest time between the last two samples of a series; 0 if no series has two.

    A missed scrape makes the result longer than the interval, which bridges the hole that the scrape left.
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
    """One series of a range query: its labels, and its values by time in milliseconds, without gaps."""

    labels: Mapping[str, str]
    points: Mapping[int, float]


def read_range(data: Any) -> list[RangeSeries]:
    """Return the series of a range query; values that are not finite are gaps."""
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
    """Read a pair of seconds and text. NaN and infinities are numbers here; callers decide about them."""
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
