"""Precedence of sources, the pods of values, and that nothing counts twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.gpu.batches import DeviceEvent, DeviceValues, EventKind, SliceValues
from clusters.gpu.measures import Level
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.merge import Answer, Coverage, Directory, Merged, PodHold, merge_answers
from telemetry.sources.samples import MeasuredTarget, Readings
from tests.builders.expositions import GPU_0, GPU_1, MIG_0

NOW: Final = 1_700_000_000_000
PERIOD: Final = 15_000
DIRECTORY: Final = Directory(
    {GPU_0: "gpu-1", GPU_1: "gpu-2", MIG_0: "gpu-1"}, uids={("team-a", "train-0"): "uid-0"}
)


def on(device: str, instance: str = "") -> MeasuredTarget:
    return MeasuredTarget(Level.DEVICE, device, instance)


def part(device: str = GPU_0, *, namespace: str = "team-a", container: str = "main") -> MeasuredTarget:
    return MeasuredTarget(Level.SLICE, device, namespace=namespace, pod="train-0", container=container)


def answer(
    origin: MeasureOrigin,
    values: Mapping[MeasuredTarget, dict[str, float]],
    *,
    source: str = "",
    times: Mapping[MeasuredTarget, int] | None = None,
    xids: Mapping[str, int] | None = None,
    instances: Mapping[tuple[str, str], str] | None = None,
) -> Answer:
    readings = Readings(dict(values), dict(xids or {}), dict(instances or {}), times=dict(times or {}))
    readings.monitored = {target.device for target in values if target.level == Level.DEVICE}
    return Answer(source or origin.value, origin, readings, NOW, PERIOD)


def merge(*answers: Answer, directory: Directory = DIRECTORY, covered: tuple[Coverage, ...] = ()) -> Merged:
    return merge_answers(answers, directory, covered=covered, now_ms=NOW)


def test_each_measure_of_each_gpu_comes_from_the_best_source_that_knows_it() -> None:
    merged = merge(
        answer(MeasureOrigin.VOLCANO_MONITOR, {on(GPU_0): {"utilization_percent": 3, "memory_used_mib": 3}}),
        answer(
            MeasureOrigin.HAMI_MONITOR,
            {on(GPU_0): {"utilization_percent": 2}, on(GPU_1): {"memory_used_mib": 2}},
        ),
        answer(MeasureOrigin.DCGM, {on(GPU_0): {"temperature_c": 1}}),
    )
    assert {(batch.node, batch.at_ms): batch.devices for batch in merged.batches} == {
        ("gpu-1", NOW): (
            DeviceValues(GPU_0, {"utilization_percent": 2, "memory_used_mib": 3, "temperature_c": 1}),
        ),
        ("gpu-2", NOW): (DeviceValues(GPU_1, {"memory_used_mib": 2}),),
    }


def test_a_better_source_that_missed_one_turn_is_not_replaced_until_it_is_stale() -> None:
    said = frozenset({(Level.DEVICE, "utilization_percent")})
    worse = answer(MeasureOrigin.HAMI_MONITOR, {on(GPU_0): {"utilization_percent": 2, "memory_used_mib": 9}})
    whole = DeviceValues(GPU_0, worse.readings.values[on(GPU_0)])
    for age, expected in ((2 * PERIOD, []), (4 * PERIOD, [(whole,)])):
        covered = Coverage("agent", MeasureOrigin.AGENT, "gpu-1", said, NOW - age, PERIOD)
        assert [batch.devices for batch in merge(worse, covered=(covered,)).batches] == expected


def test_what_one_pass_knows_of_a_gpu_is_one_sample_at_the_time_of_its_best_source() -> None:
    dcgm = answer(MeasureOrigin.DCGM, {on(GPU_0): {"utilization_percent": 1}}, times={on(GPU_0): NOW - 7000})
    hami = answer(MeasureOrigin.HAMI_MONITOR, {on(GPU_0): {"utilization_percent": 2, "memory_used_mib": 3}})
    for order in ((dcgm, hami), (hami, dcgm)):
        (batch,) = merge(*order).batches
        together = DeviceValues(GPU_0, {"utilization_percent": 1, "memory_used_mib": 3})
        assert (batch.at_ms, batch.devices) == (NOW - 7000, (together,))


def test_a_source_that_answers_is_used_by_its_present_values() -> None:
    said = frozenset({(Level.DEVICE, "utilization_percent")})
    covered = Coverage("dcgm", MeasureOrigin.DCGM, "gpu-1", said, NOW - PERIOD, PERIOD)
    worse = answer(MeasureOrigin.HAMI_MONITOR, {on(GPU_0): {"utilization_percent": 2}})
    now = answer(MeasureOrigin.DCGM, {on(GPU_0): {"temperature_c": 50}})
    (batch,) = merge(now, worse, covered=(covered,)).batches
    assert batch.devices == (DeviceValues(GPU_0, {"utilization_percent": 2, "temperature_c": 50}),)


def test_a_lower_source_covers_nothing_of_a_better_one() -> None:
    said = frozenset({(Level.DEVICE, "utilization_percent")})
    covered = Coverage("hami", MeasureOrigin.HAMI_MONITOR, "gpu-1", said, NOW, PERIOD)
    (batch,) = merge(
        answer(MeasureOrigin.DCGM, {on(GPU_0): {"utilization_percent": 2}}), covered=(covered,)
    ).batches
    assert batch.devices == (DeviceValues(GPU_0, {"utilization_percent": 2}),)


def test_two_sources_of_one_kind_count_once_and_the_newest_wins() -> None:
    old, new = {on(GPU_0): {"utilization_percent": 1.0}}, {on(GPU_0): {"utilization_percent": 2.0}}
    answers = [
        answer(MeasureOrigin.DCGM, old, source="a", times={on(GPU_0): NOW - 9}),
        answer(MeasureOrigin.DCGM, new, source="b", times={on(GPU_0): NOW - 5}),
    ]
    for order in (answers, answers[::-1]):
        (batch,) = merge(*order).batches
        assert (batch.at_ms, batch.devices) == (NOW - 5, (DeviceValues(GPU_0, {"utilization_percent": 2.0}),))


def test_a_pod_is_found_by_namespace_and_name_and_its_containers_are_put_together() -> None:
    values = {"memory_used_mib": 10.0, "utilization_percent": 60.0, "idle_s": 5.0}
    other = {"memory_used_mib": 1.0, "utilization_percent": 70.0, "idle_s": 2.0}
    (batch,) = merge(
        answer(MeasureOrigin.HAMI_MONITOR, {part(): values, part(container="side"): other}),
        answer(MeasureOrigin.HAMI_SCHEDULER, {part(container="#0"): {"memory_allocated_mib": 64.0}}),
    ).batches
    together = {"memory_used_mib": 11.0, "utilization_percent": 100.0, "idle_s": 2.0}
    assert batch.slices == (
        SliceValues(
            GPU_0,
            together | {"memory_allocated_mib": 64.0},
            pod_uid="uid-0",
            namespace="team-a",
            pod="train-0",
        ),
    )


def test_an_unknown_pod_is_left_out() -> None:
    assert (
        merge(answer(MeasureOrigin.HAMI_MONITOR, {part(namespace="b"): {"memory_used_mib": 1}})).batches == []
    )


def test_a_name_without_a_namespace_is_believed_only_if_it_is_unique() -> None:
    told = answer(
        MeasureOrigin.VOLCANO_SCHEDULER, {part(namespace="", container=""): {"memory_allocated_mib": 1}}
    )
    assert [slice_.pod_uid for slice_ in merge(told).batches[0].slices] == ["uid-0"]
    uids = {("team-a", "train-0"): "uid-0", ("team-b", "train-0"): "uid-1"}
    assert merge(told, directory=Directory(DIRECTORY.nodes, uids=uids)).batches == []


def test_a_mig_instance_gets_its_uuid_from_any_source_that_knows_it() -> None:
    told = answer(MeasureOrigin.DCGM, {on(GPU_0, "7"): {"graphics_active_percent": 50}})
    assert merge(told).batches == []
    (batch,) = merge(told, answer(MeasureOrigin.HAMI_SCHEDULER, {}, instances={(GPU_0, "7"): MIG_0})).batches
    assert batch.devices == (DeviceValues(MIG_0, {"graphics_active_percent": 50}),)


def test_a_gpu_of_no_node_is_reported_and_not_stored() -> None:
    merged = merge(answer(MeasureOrigin.DCGM, {on("GPU-new"): {"utilization_percent": 1}}))
    assert (merged.batches, merged.unknown) == ([], {"dcgm": {"GPU-new"}})


def _hold(*, shared: bool = True, since_ms: int = NOW - 90_000, device: str = GPU_0) -> Directory:
    hold = PodHold(device, "team-a", "train-0", "uid-0", since_ms, shared)
    return Directory(DIRECTORY.nodes, (hold,), DIRECTORY.uids)


def test_a_container_without_a_series_is_idle_since_its_start() -> None:
    told = answer(MeasureOrigin.HAMI_MONITOR, {on(GPU_0): {"utilization_percent": 5}})
    (batch,) = merge(told, directory=_hold()).batches
    assert batch.slices == (
        SliceValues(
            GPU_0,
            {"utilization_percent": 0.0, "memory_used_mib": 0.0, "idle_s": 90.0},
            pod_uid="uid-0",
            namespace="team-a",
            pod="train-0",
        ),
    )


def test_silence_means_idle_only_where_the_monitor_watches() -> None:
    monitor = answer(MeasureOrigin.HAMI_MONITOR, {on(GPU_0): {"utilization_percent": 5}})
    dcgm = answer(MeasureOrigin.DCGM, {on(GPU_0): {"utilization_percent": 5}})
    cases = [
        (monitor, _hold(shared=False)),
        (monitor, _hold(device=GPU_1)),
        (monitor, _hold(since_ms=NOW + 1)),
        (dcgm, _hold()),
    ]
    for told, directory in cases:
        assert merge(told, directory=directory).batches[0].slices == ()


def test_an_xid_error_is_an_event_when_its_code_changes() -> None:
    told = answer(MeasureOrigin.DCGM, {on(GPU_0): {"xid": 79, "temperature_c": 5}}, xids={GPU_0: 79})

    def events(known: Mapping[tuple[str, str], Mapping[str, int]]) -> tuple[DeviceEvent, ...]:
        (batch,) = merge_answers([told], DIRECTORY, known_xids=known, now_ms=NOW).batches
        return batch.events

    assert events({}) == ()
    assert events({("dcgm", "gpu-1"): {GPU_0: 79}}) == ()
    expected = (DeviceEvent(GPU_0, EventKind.XID, NOW, 79),)
    assert events({("dcgm", "gpu-1"): {}}) == expected
    assert events({("dcgm", "gpu-1"): {GPU_0: 31}}) == expected


def test_two_exporters_of_one_gpu_report_one_event() -> None:
    told = [
        answer(MeasureOrigin.DCGM, {on(GPU_0): {"xid": 79}}, xids={GPU_0: 79}, source=name)
        for name in ("a", "b")
    ]
    known = {("a", "gpu-1"): {GPU_0: 0}, ("b", "gpu-1"): {GPU_0: 0}}
    (batch,) = merge_answers(told, DIRECTORY, known_xids=known, now_ms=NOW).batches
    assert len(batch.events) == 1
