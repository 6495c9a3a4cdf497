"""Each exporter in each version is mapped to names and units of the catalogue, each value once."""

from __future__ import annotations

import math
import os
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clusters.gpu.measures import BY_NAME, Level
from telemetry.sources.adapt import names_of, read_samples
from telemetry.sources.declarations import EXPORTERS, PRECEDENCE, MeasureOrigin, Metric, most_of
from telemetry.sources.exposition import parse_exposition
from telemetry.sources.samples import MeasuredTarget, RawSample, Readings
from tests.builders import expositions as exp

EXAMPLES: Final = int(os.environ.get("ALLOTMENT_EXAMPLES", "50"))
DEVICE: Final = MeasuredTarget(Level.DEVICE, exp.GPU_0)
SLICE: Final = MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="team-a", pod="train-0", container="main")


def read(origin: MeasureOrigin, text: str) -> Readings:
    found = parse_exposition(text, names_of([origin]))
    assert found.unreadable == 0
    return read_samples(origin, found.samples)


@pytest.mark.parametrize("host", ["hostname", "Hostname"])
def test_dcgm_exporter_before_and_after_the_host_label_was_renamed(host: str) -> None:
    found = read(MeasureOrigin.DCGM, exp.text(*exp.dcgm(exp.DCGM_DEFAULT, host=host)))
    assert found.values == {DEVICE: exp.DCGM_EXPECTED}
    assert found.xids == {exp.GPU_0: 0}
    assert found.refused == 0


def test_metrics_that_dcgm_exporter_gives_on_request() -> None:
    found = read(MeasureOrigin.DCGM, exp.text(*exp.dcgm(exp.DCGM_MORE)))
    assert found.values == {DEVICE: exp.DCGM_MORE_EXPECTED}


def test_the_pod_of_a_whole_gpu_used_what_the_gpu_used() -> None:
    labels = {"namespace": "team-a", "pod": "train-0", "container": "main"}
    found = read(MeasureOrigin.DCGM, exp.text(*exp.dcgm({"DEV_GPU_UTIL": 87, "DEV_GPU_TEMP": 54}, **labels)))
    held = MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="team-a", pod="train-0")
    assert found.values == {
        DEVICE: {"utilization_percent": 87.0, "temperature_c": 54.0},
        held: {"utilization_percent": 87.0},
    }


def test_prometheus_renames_the_labels_of_the_exporter_beside_those_of_its_own_target() -> None:
    labels = {"pod": "dcgm-exporter-x7", "exported_pod": "train-0", "exported_namespace": "team-a"}
    found = read(
        MeasureOrigin.DCGM, exp.text(*exp.dcgm({"DEV_GPU_UTIL": 9}, namespace="monitoring", **labels))
    )
    assert MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="team-a", pod="train-0") in found.values


def test_time_sliced_pods_do_not_each_use_the_whole_gpu() -> None:
    lines = [
        line
        for pod in ("train-0", "train-1")
        for line in exp.dcgm({"DEV_GPU_UTIL": 87, "DEV_FB_USED": 20480}, namespace="team-a", pod=pod)
    ]
    assert read(MeasureOrigin.DCGM, exp.text(*lines)).values == {
        DEVICE: {"utilization_percent": 87.0, "memory_used_mib": 20480.0}
    }


def test_use_per_process_belongs_to_each_pod_and_says_nothing_of_the_whole_gpu() -> None:
    lines = exp.dcgm({"DEV_GPU_UTIL": 30, "DEV_FB_USED": 100, "DEV_GPU_TEMP": 54}, namespace="a", pod="p")
    lines += exp.dcgm({"DEV_GPU_UTIL": 50, "DEV_FB_USED": 100, "DEV_GPU_TEMP": 54}, namespace="b", pod="p")
    assert read(MeasureOrigin.DCGM, exp.text(*lines)).values == {
        DEVICE: {"temperature_c": 54.0},
        MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="a", pod="p"): {
            "utilization_percent": 30.0,
            "memory_used_mib": 100.0,
        },
        MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="b", pod="p"): {
            "utilization_percent": 50.0,
            "memory_used_mib": 100.0,
        },
    }


def test_mig_instances_are_distinguished_from_their_gpu() -> None:
    lines = exp.dcgm({"PROF_GR_ENGINE_ACTIVE": 0.5}, GPU_I_PROFILE="1g.10gb", GPU_I_ID="7")
    lines += exp.dcgm({"PROF_GR_ENGINE_ACTIVE": 0.25}, GPU_I_PROFILE="1g.10gb", GPU_I_ID="8")
    lines += exp.dcgm({"DEV_GPU_TEMP": 54})
    assert read(MeasureOrigin.DCGM, exp.text(*lines)).values == {
        DEVICE: {"temperature_c": 54.0},
        MeasuredTarget(Level.DEVICE, exp.GPU_0, "7"): {
            "graphics_active_percent": 50.0,
            "utilization_percent": 50.0,
        },
        MeasuredTarget(Level.DEVICE, exp.GPU_0, "8"): {
            "graphics_active_percent": 25.0,
            "utilization_percent": 25.0,
        },
    }


def test_hami_maps_mig_instances_to_uuids() -> None:
    labels = {"node": "gpu-1", "device_uuid": exp.GPU_0, "mig_uuid": exp.MIG_0, "gpu_instance_id": "7"}
    text = exp.text(exp.line("hami_node_gpu_mig_instance_info", 1, **labels))
    assert read(MeasureOrigin.HAMI_SCHEDULER, text).instances == {(exp.GPU_0, "7"): exp.MIG_0}


def test_the_last_xid_code_is_a_value_only_if_there_was_an_error() -> None:
    found = read(
        MeasureOrigin.DCGM,
        exp.text(*exp.dcgm({"DEV_XID_ERRORS": 79}), *exp.dcgm({"DEV_XID_ERRORS": 0}, gpu=exp.GPU_1)),
    )
    assert found.xids == {exp.GPU_0: 79, exp.GPU_1: 0}
    assert found.values == {DEVICE: {"xid": 79.0}}


@pytest.mark.parametrize(
    ("origin", "text", "device", "part"),
    [
        (
            MeasureOrigin.HAMI_MONITOR,
            exp.HAMI_MONITOR,
            exp.MONITOR_DEVICE | {"memory_copy_percent": 22.0},
            exp.MONITOR_SLICE,
        ),
        (MeasureOrigin.HAMI_MONITOR, exp.HAMI_MONITOR_LEGACY, exp.MONITOR_DEVICE, exp.MONITOR_SLICE),
        (MeasureOrigin.VOLCANO_MONITOR, exp.HAMI_MONITOR_LEGACY, exp.MONITOR_DEVICE, exp.MONITOR_SLICE),
        (
            MeasureOrigin.HAMI_MONITOR,
            exp.HAMI_MONITOR + exp.HAMI_MONITOR_LEGACY,
            exp.MONITOR_DEVICE | {"memory_copy_percent": 22.0},
            exp.MONITOR_SLICE,
        ),
    ],
    ids=["2.9", "legacy", "volcano", "both"],
)
def test_monitors_of_slices(
    origin: MeasureOrigin, text: str, device: dict[str, float], part: dict[str, float]
) -> None:
    found = read(origin, text)
    assert found.values == {DEVICE: device, SLICE: part}
    assert found.monitored == {exp.GPU_0}


@pytest.mark.parametrize(
    ("text", "device", "part"),
    [
        (exp.HAMI_SCHEDULER, exp.SCHEDULER_DEVICE, exp.SCHEDULER_SLICE),
        (exp.HAMI_SCHEDULER_LEGACY, exp.SCHEDULER_DEVICE, exp.SCHEDULER_SLICE),
        (exp.HAMI_SCHEDULER_2_7, None, exp.SCHEDULER_SLICE | {"memory_allocated_percent": 10.0}),
    ],
    ids=["2.9", "legacy", "2.7"],
)
def test_what_hami_allocated_is_never_taken_for_use(
    text: str, device: dict[str, float] | None, part: dict[str, float]
) -> None:
    held = MeasuredTarget(Level.SLICE, exp.GPU_0, namespace="team-a", pod="train-0", container="#0")
    expected = {held: part} if device is None else {DEVICE: device, held: part}
    found = read(MeasureOrigin.HAMI_SCHEDULER, text)
    assert found.values == expected
    assert not {name for _, name in found.list_measures()} & {"utilization_percent", "memory_used_mib"}


def test_volcano_names_the_pod_without_its_namespace() -> None:
    found = read(MeasureOrigin.VOLCANO_SCHEDULER, exp.VOLCANO_SCHEDULER)
    assert found.values == {
        DEVICE: {
            "memory_allocated_mib": 32768.0,
            "cores_allocated_percent": 70.0,
            "sharing_containers": 2.0,
        },
        MeasuredTarget(Level.SLICE, exp.GPU_0, pod="train-0"): {
            "memory_allocated_mib": 16384.0,
            "cores_allocated_percent": 35.0,
        },
    }


def test_replicas_of_an_exporter_count_once_and_the_newest_wins() -> None:
    labels = {"UUID": exp.GPU_0}
    samples = [
        RawSample("DCGM_FI_DEV_GPU_UTIL", {**labels, "instance": "a"}, 10, 1000),
        RawSample("DCGM_FI_DEV_GPU_UTIL", {**labels, "instance": "b"}, 20, 2000),
        RawSample("DCGM_FI_DEV_GPU_UTIL", {**labels, "instance": "c"}, 15, 1500),
    ]
    for order in (samples, samples[::-1]):
        found = read_samples(MeasureOrigin.DCGM, order)
        assert (found.values, found.times) == ({DEVICE: {"utilization_percent": 20.0}}, {DEVICE: 2000})


@pytest.mark.parametrize("part", ["CORRECTABLE", "UNCORRECTABLE"])
def test_a_sum_needs_all_of_its_parts(part: str) -> None:
    assert read(MeasureOrigin.DCGM, exp.text(*exp.dcgm({f"DEV_{part}_REMAPPED_ROWS": 3}))).values == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("DEV_GPU_UTIL", text) for text in ("NaN", "+Inf", "-Inf", "-1", "101", "1e300", "9" * 400)),
        *(("DEV_GPU_UTIL", text) for text in ("", "x", "1_0", "0x10", "1 2 3")),
        ("DEV_FB_USED", str(2**47)),
        ("DEV_GPU_TEMP", "0"),
        ("DEV_MEMORY_TEMP", "0"),
        ("DEV_GPU_TEMP", str(0x7FFFFFF0)),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", str(2**47 + 2)),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", str(0x7FFFFFFFFFFFFFF0)),
        ("DEV_CLOCKS_EVENT_REASONS", "1.5"),
        ("DEV_XID_ERRORS", "79.5"),
        ("DEV_XID_ERRORS", "1e12"),
    ],
)
def test_what_cannot_be_true_or_means_unknown_becomes_no_value(name: str, value: str) -> None:
    (line,) = exp.dcgm({name: value})
    samples = parse_exposition(line, names_of([MeasureOrigin.DCGM])).samples
    assert read_samples(MeasureOrigin.DCGM, samples).values == {}


def test_a_container_with_several_processes_uses_at_most_the_whole_gpu() -> None:
    labels = {"namespace": "a", "pod": "p", "container": "c", "device_uuid": exp.GPU_0}
    text = exp.text(exp.line("hami_container_device_utilization_ratio", 143, **labels))
    (values,) = read(MeasureOrigin.HAMI_MONITOR, text).values.values()
    assert values == {"utilization_percent": 100.0}


@pytest.mark.parametrize("metric", [m for e in EXPORTERS.values() for m in e.metrics], ids=lambda m: m.name)
def test_every_declared_metric_has_a_measure_of_its_level(metric: Metric) -> None:
    assert metric.level in BY_NAME[metric.measure].levels


def test_every_exporter_has_a_rank_of_its_own() -> None:
    assert set(EXPORTERS) | {MeasureOrigin.AGENT} == set(PRECEDENCE)
    assert len(set(PRECEDENCE.values())) == len(PRECEDENCE)


_PLAIN: Final = [
    (exporter.origin, metric)
    for exporter in EXPORTERS.values()
    for metric in exporter.metrics
    if not metric.summed
]


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(_PLAIN), st.floats(0, 2**60, allow_nan=False))
@example(_PLAIN[0], 1e-300)
def test_a_number_in_a_text_is_exactly_one_value_in_the_unit_of_its_measure(
    declared: tuple[MeasureOrigin, Metric], number: float
) -> None:
    origin, metric = declared
    exporter = EXPORTERS[origin]
    labels = {name: "x" for names in (exporter.labels.pod, exporter.labels.namespace) for name in names[-1:]}
    labels = labels if metric.level == Level.SLICE else {}
    text = exp.text(exp.line(metric.name, repr(number), **{exporter.labels.device[0]: exp.GPU_0}, **labels))
    found = read(origin, text)
    measure = BY_NAME[metric.measure]
    expected = number * metric.multiply / metric.divide
    values = [value for by_name in found.values.values() for value in by_name.values()]
    if metric.adds_up and expected > most_of(measure) and values:
        assert values == [100.0]
    elif values:
        assert values == [expected]
        assert next(iter(found.values)).level == metric.level
        assert (found.used, found.refused) == (1, 0)
    else:
        absent = number in exporter.blanks or (metric.zero_is_absent and number == 0)
        beyond = expected > most_of(measure) or (measure.kind == "state" and not expected.is_integer())
        assert absent or beyond


_NAMES: Final = sorted({name for origin in EXPORTERS for name in names_of([origin])})
_LABEL_NAMES: Final = """
    UUID device_uuid deviceuuid devID pod namespace podname podName ctrname GPU_I_ID container container_index
    gpu_instance_id mig_uuid x
"""
_LABELS: Final = st.sampled_from(_LABEL_NAMES.split())
_TEXTS: Final = st.one_of(
    st.sampled_from([exp.GPU_0, exp.MIG_0, "a", "", "0", "a" * 5000, "\x00", "\n", "GPU-" + "1" * 200]),
    st.text(max_size=20),
)
_NUMBERS: Final = st.one_of(
    st.floats(),
    st.integers(),
    st.just(10**400),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e308]),
)


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(sorted(EXPORTERS)),
    st.lists(
        st.builds(
            RawSample,
            st.sampled_from(_NAMES),
            st.dictionaries(_LABELS, st.one_of(_TEXTS, _TEXTS, st.integers()), max_size=6),
            _NUMBERS,
            st.one_of(st.none(), st.integers(0, 2**45)),
        ),
        max_size=12,
    ),
)
def test_hostile_samples_raise_nothing_and_become_no_false_value(
    origin: MeasureOrigin, samples: list[Any]
) -> None:
    found = read_samples(origin, samples)
    for target, values in found.values.items():
        assert 0 < len(target.device) <= 80
        assert target.device.isprintable() and " " not in target.device
        for name, value in values.items():
            assert 0 <= value <= most_of(BY_NAME[name])
            assert target.level in BY_NAME[name].levels
