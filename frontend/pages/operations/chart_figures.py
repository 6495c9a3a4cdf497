"""The charts of a cluster and of a node, from the telemetry's series.

Allocation is what the ledger granted, utilisation what was measured. They share a chart as an area and
a line, and are never put into one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from frontend import charts
from telemetry.series import SeriesGap, SeriesSet

Samples = tuple[tuple[datetime, float | None], ...]
Figure = Callable[[SeriesSet], charts.Chart]

_GIB: Final = 1024
_SHORTEST: Final = timedelta(minutes=5)


def span_of(found: SeriesSet) -> tuple[datetime, datetime]:
    """The time a chart shows: what was asked for, less what lies before all readings and gaps.

    A new installation would otherwise show its first minutes as a sliver beside an hour of nothing.
    """
    latest = max(found.start, found.end - _SHORTEST)
    return min(_first(found), latest), found.end


def _first(found: SeriesSet) -> datetime:
    """When anything is known for the first time; the start where that is right at the edge."""
    known = [at for series in found.series for at, value in series.points if value is not None]
    first = min([*known, *(gap.start for gap in found.gaps)], default=found.end)
    # One missing bucket at the edge is the grid's doing.
    return first if first - found.start > timedelta(seconds=2 * found.step_s) else found.start


def gaps_of(found: SeriesSet) -> list[charts.Gap]:
    """The gaps inside the chart's time, with their cause in words; the time before all readings is one."""
    start, end = span_of(found)
    gaps = [
        charts.Gap(max(gap.start, start), min(gap.end or end, end), _cause(gap))
        for gap in found.gaps
        if gap.end is None or gap.end > start
    ]
    first = _first(found)
    if first > start:
        gaps.insert(0, charts.Gap(start, first, _("Before the first sample")))
    return gaps


def _cause(gap: SeriesGap) -> str:
    if gap.cause == "unreachable":
        said = _("Cluster %(cluster)s unreachable") % {"cluster": gap.cluster}
        return f"{said}: {gap.message}" if gap.message else said
    if gap.cause == "platform":
        return _("Allotment was not running")
    return _("Cluster %(cluster)s returned no metrics") % {"cluster": gap.cluster}


def _points(found: SeriesSet, measure: str, per: float = 1) -> Samples:
    series = found.get(measure)
    if series is None:
        return ()
    return tuple((at, None if value is None else value / per) for at, value in series.points)


def _peak(*lines: Samples) -> float | None:
    values = [value for line in lines for _at, value in line if value is not None]
    return max(values) if values else None


def draw_allocation(found: SeriesSet) -> charts.Chart:
    """Compute allocated and compute used, both in percent of all cards."""
    return charts.draw_allocation(
        "allocation",
        allocated=_points(found, "cores_allocated"),
        used=_points(found, "utilisation"),
        unit="%",
        title=_("Allocation and utilization"),
        gaps=gaps_of(found),
        span=span_of(found),
    )


def draw_memory(found: SeriesSet) -> charts.Chart:
    """GPU memory allocated and used, in GiB, up to what the cards have."""
    return charts.draw_allocation(
        "memory",
        allocated=_points(found, "memory_allocated", _GIB),
        used=_points(found, "memory_used", _GIB),
        unit="GiB",
        title=_("GPU memory"),
        capacity=_peak(_points(found, "memory_total", _GIB)),
        gaps=gaps_of(found),
        span=span_of(found),
    )


def draw_power(found: SeriesSet) -> charts.Chart:
    """Power of all cards together, in kilowatts."""
    line = charts.ChartLine(name=_("power"), points=_points(found, "power", 1000), color="series-5")
    return charts.time_series(
        "power",
        [line],
        unit="kW",
        title=_("Power"),
        gaps=gaps_of(found),
        span=span_of(found),
    )


def draw_temperature(found: SeriesSet) -> charts.Chart:
    """Mean and hottest card."""
    lines = [
        charts.ChartLine(name=_("Max"), points=_points(found, "temperature_max"), color="series-3"),
        charts.ChartLine(name=_("Average"), points=_points(found, "temperature"), color="series-8"),
    ]
    return charts.time_series(
        "temperature",
        lines,
        unit="°C",
        title=_("Temperature"),
        gaps=gaps_of(found),
        span=span_of(found),
    )


def _cards(measure: str, key: str, unit: str, title: Callable[[], str], per: float = 1) -> Figure:
    def figure(found: SeriesSet) -> charts.Chart:
        cards = {
            series.label: tuple((at, None if value is None else value / per) for at, value in series.points)
            for series in found.series
            if series.measure == measure
        }
        return charts.per_card(key, cards, unit=unit, title=title(), gaps=gaps_of(found), span=span_of(found))

    return figure


CLUSTER_FIGURES: Final[Mapping[str, Figure]] = {
    "allocation": draw_allocation,
    "memory": draw_memory,
    "power": draw_power,
    "temperature": draw_temperature,
}
NODE_FIGURES: Final[Mapping[str, Figure]] = {
    "allocation": draw_allocation,
    "memory": draw_memory,
    "card-utilisation": _cards("card_utilisation", "card-utilisation", "%", lambda: _("Utilization per GPU")),
    "card-memory": _cards(
        "card_memory_used", "card-memory", "GiB", lambda: _("GPU memory used per GPU"), _GIB
    ),
    "card-temperature": _cards(
        "card_temperature", "card-temperature", "°C", lambda: _("Temperature per GPU")
    ),
    "card-power": _cards("card_power", "card-power", "W", lambda: _("Power per GPU")),
}
