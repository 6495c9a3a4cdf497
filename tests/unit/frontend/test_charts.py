"""Figures are plain data: tokens for colours, UTC for times, breaks for gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from frontend import charts
from frontend.charts.model import format_utc, with_gaps
from frontend.pages.charts.definitions import CLUSTER, NODE
from frontend.pages.charts.drawing import draw_chart
from telemetry.series import Series, SeriesSet

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SAMPLES = [(START + n * MINUTE, float(n)) for n in range(10)]
GAP = charts.Gap(START + 3 * MINUTE, START + 6 * MINUTE, "agent not answering")


def areas(chart: charts.Chart) -> list[dict[str, Any]]:
    return [trace for trace in chart.figure["data"] if "fill" in trace]


def shapes_of(trace: dict[str, Any]) -> list[list[tuple[str, float]]]:
    """The closed shapes of a filled trace."""
    found: list[list[tuple[str, float]]] = [[]]
    for at, value in zip(trace["x"], trace["y"], strict=True):
        if value is None:
            found.append([])
        else:
            found[-1].append((at, value))
    return [shape for shape in found if shape]


def memory_chart(values: Sequence[float | None], gaps: Sequence[charts.Gap] = ()) -> charts.Chart:
    points = [(START + n * MINUTE, value) for n, value in enumerate(values)]
    line = charts.ChartLine(name="allocated", points=points, color="allocated", area=True)
    return charts.time_series("k", [line], unit="GiB", title="GPU memory", gaps=gaps)


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


def test_a_line_that_is_not_measured_is_drawn_across_gaps() -> None:
    ends = [SAMPLES[0], SAMPLES[-1]]
    lines = [
        charts.ChartLine(name="a", points=SAMPLES),
        charts.ChartLine(name="limit", points=ends, measured=False),
    ]
    chart = charts.time_series("k", lines, unit="", title="T", gaps=[GAP])
    assert [None in trace["y"] for trace in chart.figure["data"]] == [True, False]


def test_no_area_is_filled_across_an_eviction() -> None:
    (area,) = areas(memory_chart([40.0, 40.0, None, None, 40.0, 40.0]))
    assert area["fill"] == "toself", "plotly joins the parts of any other fill across a gap"
    first, second = shapes_of(area)
    assert {at for at, _ in first} == {format_utc(START + n * MINUTE) for n in (0, 1)}
    assert {at for at, _ in second} == {format_utc(START + n * MINUTE) for n in (4, 5)}


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=20),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_every_filled_shape_lies_within_one_stretch_of_values(
    values: list[float | None], hole: tuple[int, int]
) -> None:
    begin, end = sorted(hole)
    gaps = [charts.Gap(START + begin * MINUTE, START + end * MINUTE, "c")] if begin < end else []
    chart = memory_chart(values, gaps)
    (line,) = (trace for trace in chart.figure["data"] if "fill" not in trace)
    stretches: list[list[str]] = [[]]
    for at, value in zip(line["x"], line["y"], strict=True):
        if value is None:
            stretches.append([])
        else:
            stretches[-1].append(at)
    wanted = [stretch for stretch in stretches if stretch]
    for area in areas(chart):
        drawn = shapes_of(area)
        assert [[at for at, _ in shape[1:-1]] for shape in drawn] == wanted
        assert all(shape[0] == (shape[1][0], 0) and shape[-1] == (shape[-2][0], 0) for shape in drawn)


def test_a_value_between_two_gaps_is_a_dot() -> None:
    chart = memory_chart([None, 7.0, None, 1.0, 2.0])
    (line,) = (trace for trace in chart.figure["data"] if "fill" not in trace)
    assert line["marker"]["size"] == [0, 4, 0, 0, 0]


def test_a_chart_without_samples_says_so() -> None:
    chart = charts.time_series("k", [charts.ChartLine(name="a", points=[])], unit="", title="Pending")
    assert chart.summary == "Pending: no data"


def series_set(start: datetime, values: Sequence[float | None], *names: tuple[str, str]) -> SeriesSet:
    points = tuple((start + n * MINUTE, value) for n, value in enumerate(values))
    lines = tuple(Series(name, f"GPU {subject}", "percent", points, subject) for name, subject in names)
    return SeriesSet(start, start + len(values) * MINUTE, 60, lines)


def test_the_axis_is_the_chosen_range_and_the_time_without_data_is_named() -> None:
    span = (START, START + 10 * MINUTE)
    names = (("utilisation", ""), ("cores_allocated", ""))
    chart = draw_chart(CLUSTER[0], series_set(START, [None] * 6 + [5.0] * 4, *names), span)
    assert chart.figure["layout"]["xaxis"]["range"] == [format_utc(moment) for moment in span]
    ((begin, end, cause),) = chart.figure["layout"]["meta"]["gaps"]
    assert (begin, end, cause) == (
        format_utc(START),
        format_utc(START + 6 * MINUTE),
        "Before the first sample",
    )


def test_the_period_before_is_dashed_labelled_and_at_the_time_of_this_one() -> None:
    span = (START, START + 3 * MINUTE)
    names = (("utilisation", ""), ("cores_allocated", ""))
    now, before = (
        series_set(*(span[:1]), [1, 2, 3], *names),
        series_set(START - 3 * MINUTE, [7, 8, 9], *names),
    )
    traces = {trace.get("name"): trace for trace in draw_chart(CLUSTER[0], now, span, before).figure["data"]}
    earlier = traces["used, previous period"]
    assert (earlier["x"], earlier["y"]) == (traces["used"]["x"], [7, 8, 9])
    assert earlier["line"]["dash"] == "dash"
    assert earlier["line"]["color"] == traces["used"]["line"]["color"]
    assert "previous period" in traces, "the legend tells what is dashed"


def test_cards_beyond_eight_are_distinguished_by_dashes() -> None:
    found = series_set(START, [1.0, 2.0], *(("card_utilisation", str(n)) for n in range(10)))
    chart = draw_chart(NODE[2], found, (START, START + 2 * MINUTE))
    looks = {(trace["line"]["color"], trace["line"]["dash"]) for trace in chart.figure["data"]}
    assert len(looks) == 10


def tree_sectors(folders: int, teams: int) -> list[charts.Sector]:
    """A whole of folders of teams; each team has two parts."""
    sizes = [("", ["all"]), ("all", [f"f{n}" for n in range(folders)])]
    sizes += [(f"f{n}", [f"f{n}t{m}" for m in range(teams)]) for n in range(folders)]
    sizes += [(f"f{n}t{m}", [f"f{n}t{m}{p}" for p in "ab"]) for n in range(folders) for m in range(teams)]
    return [
        charts.Sector(key=key, parent=above, label=key, value=1, color="free")
        for above, keys in sizes
        for key in keys
    ]


def test_a_level_with_too_many_sectors_is_shown_on_a_click() -> None:
    levels = {}
    for shape in ((2, 3), (10, 10), (20, 50), (500, 1)):
        chart = charts.treemap_chart("k", tree_sectors(*shape), unit="GPUs", summary="s", table=([], []))
        (trace,) = chart.figure["data"]
        levels[shape] = trace["maxdepth"]
        assert len(trace["ids"]) == 1 + shape[0] * (1 + 3 * shape[1]), "all of them are there to be opened"
    assert levels == {(2, 3): 4, (10, 10): 3, (20, 50): 2, (500, 1): 2}
