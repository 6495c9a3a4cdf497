"""Texts of exporters and answers of Prometheus, including invalid ones."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.sources.adapt import names_of, read_samples
from telemetry.sources.declarations import EXPORTERS, MeasureOrigin
from telemetry.sources.exposition import LINE_MAX, parse_exposition
from telemetry.sources.prometheus import newest_samples, read_range
from tests.builders import expositions as exp

EXAMPLES: Final = int(os.environ.get("ALLOTMENT_EXAMPLES", "50"))
NAMES: Final = names_of(EXPORTERS)
GOOD: Final = exp.dcgm({"DEV_GPU_UTIL": 87})[0]


def test_comments_unknown_metrics_and_line_ends_of_windows_are_passed_over() -> None:
    text = "# HELP DCGM_FI_DEV_GPU_UTIL x\r\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\r\ngo_goroutines{ 7\r\n\r\n"
    found = parse_exposition(f"{text}{GOOD}\r\n", NAMES)
    assert [(sample.name, sample.value) for sample in found.samples] == [("DCGM_FI_DEV_GPU_UTIL", 87)]
    assert found.unreadable == 0


def test_a_spoilt_line_costs_itself_alone() -> None:
    spoilt = [
        'DCGM_FI_DEV_GPU_UTIL{UUID="a} 1',
        "DCGM_FI_DEV_GPU_UTIL",
        'DCGM_FI_DEV_GPU_UTIL{a="1",a="2"} 1',
    ]
    spoilt.append(exp.line("DCGM_FI_DEV_GPU_UTIL", 1, UUID="x" * LINE_MAX))
    found = parse_exposition("\n".join([*spoilt, GOOD, *spoilt]), NAMES)
    assert (len(found.samples), found.unreadable) == (1, 8)


def test_escaped_labels_and_times_are_read() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",x="a\\"},{\\\\ \\n"} 5 1700000000123'
    (sample,) = parse_exposition(text, NAMES).samples
    assert sample.labels == {"UUID": "GPU-1", "x": 'a"},{\\ \n'}
    assert (sample.value, sample.at_ms) == (5, 1_700_000_000_123)


def test_braces_within_a_label_do_not_end_the_labels() -> None:
    (sample,) = parse_exposition('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",x="}"} 5', NAMES).samples
    assert sample.labels["x"] == "}"


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(NAMES), st.text(max_size=80), st.sampled_from(sorted(EXPORTERS)))
def test_no_text_raises(name: str, tail: str, origin: MeasureOrigin) -> None:
    found = parse_exposition(f'{name}{tail}\n{name}{{UUID="GPU-1",{tail}}} 1\n{name} {tail}', NAMES)
    read_samples(origin, found.samples)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 4000), st.sampled_from('"{}\\,= \n\x00é#'), st.sampled_from(sorted(EXPORTERS)))
def test_a_text_that_is_damaged_anywhere_never_becomes_a_new_gpu(
    at: int, put: str, origin: MeasureOrigin
) -> None:
    text = exp.HAMI_MONITOR + exp.HAMI_MONITOR_LEGACY + exp.HAMI_SCHEDULER
    at %= len(text)
    found = parse_exposition(text[:at] + put + text[at + 1 :], NAMES)
    read_samples(origin, found.samples)
    assert len(found.samples) + found.unreadable <= 24


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=EXAMPLES)
@given(
    st.one_of(
        _JSON,
        st.fixed_dictionaries(
            {
                "resultType": st.sampled_from(["matrix", "vector", "scalar", 1]),
                "result": st.lists(
                    st.one_of(
                        _JSON,
                        st.fixed_dictionaries(
                            {
                                "metric": st.dictionaries(st.sampled_from(["__name__", "UUID", "x"]), _JSON),
                                "values": st.lists(
                                    st.one_of(_JSON, st.tuples(st.floats(), st.text(max_size=5)).map(list))
                                ),
                            }
                        ),
                    ),
                    max_size=3,
                ),
            }
        ),
    )
)
def test_no_answer_of_a_prometheus_server_raises(data: Any) -> None:
    for origin in EXPORTERS:
        read_samples(origin, newest_samples(data))
    for series in read_range(data):
        assert all(at >= 0 for at in series.points)


def test_the_newest_sample_of_each_series_is_read_with_its_own_time() -> None:
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1"}
    row = {"metric": labels, "values": [[1700000000, "1"], [1700000030.5, "3"], [1700000015, "2"]]}
    data = json.loads(json.dumps({"resultType": "matrix", "result": [row]}))
    (sample,) = newest_samples(data)
    assert (sample.name, sample.value, sample.at_ms) == ("DCGM_FI_DEV_GPU_UTIL", 3.0, 1_700_000_030_500)
    assert sample.labels == {"UUID": "GPU-1"}


def test_what_is_no_number_is_a_gap() -> None:
    values = [[10, "1"], [20, "NaN"], [30, "+Inf"], [40, "x"], [50, "5"]]
    (series,) = read_range({"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": values}]})
    assert (series.labels, series.points) == ({"a": "b"}, {10_000: 1.0, 50_000: 5.0})
