"""Figures are plain data: tokens for colours, UTC for times, breaks for gaps."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from frontend import charts
from frontend.charts.model import with_gaps

START = datetime(2026, 3, 1, tzinfo=UTC)
SAMPLES = [(START + timedelta(minutes=n), float(n)) for n in range(10)]
GAP = charts.Gap(START + timedelta(minutes=3), START + timedelta(minutes=6), "agent not answering")


def test_a_figure_is_json_with_tokens_and_utc_times() -> None:
    chart = charts.time_series("k", [charts.ChartLine(name="used", points=SAMPLES)], unit="%", title="Use")
    text = json.dumps(chart.as_json())
    assert "var(--series-1)" in text
    assert "2026-03-01T00:00:00Z" in text
    assert len(text) < 6000, "plotly's own template must not travel with every figure"


def test_a_line_breaks_at_a_gap_and_names_its_cause() -> None:
    points = with_gaps(SAMPLES, [GAP])
    assert [point.value for point in points] == [0, 1, 2, 3, None, 6, 7, 8, 9]
    chart = charts.time_series(
        "k", [charts.ChartLine(name="a", points=SAMPLES)], unit="", title="T", gaps=[GAP]
    )
    assert chart.figure["layout"]["meta"]["gaps"][0][2] == "agent not answering"
    assert chart.summary == "T: a 9; gaps without data: 1"


def test_allocation_and_utilisation_are_never_stacked() -> None:
    chart = charts.draw_allocation("k", allocated=SAMPLES, used=SAMPLES, unit="%", title="Both")
    assert not any("stackgroup" in trace for trace in chart.figure["data"])


def test_the_borrowed_band_tells_the_borrowed_amount() -> None:
    borrowed = [(at, 2.0) for at, _value in SAMPLES]
    chart = charts.draw_allocation(
        "k", allocated=SAMPLES, used=SAMPLES, borrowed=borrowed, unit="GPUs", title="Q"
    )
    band = next(trace for trace in chart.figure["data"] if trace.get("name") == "borrowed")
    assert band["customdata"] == [2.0] * 10
    assert band["fillpattern"]["shape"] == "/"


def test_cards_beyond_eight_are_told_apart_by_dashes() -> None:
    chart = charts.per_card("k", {f"GPU {n}": SAMPLES for n in range(10)}, unit="%", title="GPUs")
    looks = {(trace["line"]["color"], trace["line"]["dash"]) for trace in chart.figure["data"]}
    assert len(looks) == 10


def test_a_chart_without_samples_says_so() -> None:
    chart = charts.draw_stacked("k", [charts.ChartLine(name="a", points=[])], unit="", title="Pending")
    assert chart.summary == "Pending: no data"
