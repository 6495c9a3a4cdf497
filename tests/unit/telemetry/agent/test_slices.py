"""A container's use of a GPU: NVML goes first, and values that the container writes are limited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.gpu.hami import CardShare
from clusters.gpu.measures import BY_NAME, Level
from telemetry.agent.cgroups import ProcessTable
from telemetry.agent.pods import PodView
from telemetry.agent.slices import SliceReader
from telemetry.agent.snapshot import GpuSample, ProcessSample, SliceSample
from tests.builders.node_files import CONTAINER, cgroup_path, put_process
from tests.builders.regions import MIB, put_region, region

UID = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"
GPU = "GPU-a"
NOW, STARTED = 1_000_000.0, 999_000.0


@pytest.fixture
def reader(tmp_path: Path) -> SliceReader:
    return SliceReader(tmp_path / "hami", ProcessTable(tmp_path / "proc"))


@pytest.fixture
def root(reader: SliceReader) -> Path:
    return reader.root


def pod(memory_mib: int = 3000, cores: int = 30, **shares: Any) -> PodView:
    share = shares or {"main": {GPU: CardShare(GPU, memory_mib, cores)}}
    return PodView(UID, "team", "job-0", share, {CONTAINER: "main"}, {"main": STARTED})


def process(pid: int = 10, container: str | None = CONTAINER, **values: float) -> ProcessSample:
    return ProcessSample(GPU, pid, "python3", UID, container, values)


def read(
    reader: SliceReader,
    view: PodView,
    *processes: ProcessSample,
    device: dict[str, float] | None = None,
    now: float = NOW,
) -> list[SliceSample]:
    devices = [GpuSample(GPU, None, 0, device or {})]
    return reader.read({view.uid: view}, devices, processes, {GPU: 80_000.0}, now)


def values(*arguments: Any, **options: Any) -> dict[str, float]:
    (sample,) = read(*arguments, **options)
    assert all(Level.SLICE in BY_NAME[name].levels for name in sample.values)
    return dict(sample.values)


def test_a_container_that_never_used_its_card_is_idle_since_its_start(reader: SliceReader) -> None:
    assert values(reader, pod()) == {
        "memory_limit_mib": 3000, "memory_used_mib": 0, "utilization_percent": 0, "idle_s": 1000,
    }  # fmt: skip


def test_a_file_has_what_nvml_does_not(reader: SliceReader, root: Path) -> None:
    data = region(
        {GPU: 3000}, used_mib=[{GPU: 100}, {GPU: 50}], sm=[{GPU: 12}, {GPU: 3}], host_pids=[0, 0],
        last_kernel=int(NOW) - 40,
    )  # fmt: skip
    put_region(root, UID, data)
    assert values(reader, pod(), process()) == {
        "memory_limit_mib": 3000, "memory_enforced_mib": 3000, "memory_used_mib": 150,
        "utilization_percent": 15, "idle_s": 40,
    }  # fmt: skip


def test_what_nvml_measures_goes_before_what_the_container_writes(reader: SliceReader, root: Path) -> None:
    put_region(root, UID, region({GPU: 3000}, used_mib=[{GPU: 1}], sm=[{GPU: 1}], host_pids=[0]))
    told = [
        process(10, memory_used_mib=3500, utilization_percent=60),
        process(11, memory_used_mib=500, utilization_percent=70),
    ]
    found = values(reader, pod(), *told)
    assert (found["memory_used_mib"], found["utilization_percent"]) == (4000, 100)


def test_memory_that_nvml_knows_of_one_process_only_is_no_sum(reader: SliceReader) -> None:
    assert "memory_used_mib" not in values(reader, pod(), process(10, memory_used_mib=35), process(11))


@pytest.mark.parametrize("number", [2**64 - 1, 2**63, 10**15])
def test_what_a_container_writes_is_held_within_the_card(
    reader: SliceReader, root: Path, number: int
) -> None:
    data = region({GPU: 3000}, used_mib=[{GPU: 0}], host_pids=[0])
    for offset in (1600, 1856 + 40, 1856 + 1176):
        data[offset : offset + 8] = number.to_bytes(8, "little")
    data[2_008_912:2_008_920] = number.to_bytes(8, "little")
    put_region(root, UID, data)
    found = values(reader, pod(), process())
    assert (found["memory_used_mib"], found["memory_enforced_mib"]) == (80_000, 80_000)
    assert found["utilization_percent"] == 100
    assert 0 <= found["idle_s"] <= NOW - STARTED
    assert found["memory_limit_mib"] == 3000, "the grant is the platform's word"


def test_a_limit_that_was_taken_away_is_seen(reader: SliceReader, root: Path) -> None:
    put_region(root, UID, region({GPU: 0}))
    assert values(reader, pod())["memory_enforced_mib"] == 80_000


def test_a_process_that_has_ended_counts_no_more(reader: SliceReader, root: Path) -> None:
    put_process(reader.table.root, 4000, cgroup_path(UID))
    put_process(reader.table.root, 4002, cgroup_path("11111111-2222-3333-4444-555555555555"))
    used = [{GPU: 100}, {GPU: 800}, {GPU: 900}]
    put_region(root, UID, region({GPU: 3000}, used_mib=used, host_pids=[4000, 4001, 4002]))
    assert values(reader, pod(), process(4000))["memory_used_mib"] == 100
    reader.sees_host = False
    assert values(reader, pod())["memory_used_mib"] == 1800, "nobody can tell which of them run"


def test_a_container_with_the_whole_card_has_the_utilization_of_the_card(
    reader: SliceReader, root: Path
) -> None:
    put_region(root, UID, region({GPU: 3000}, used_mib=[{GPU: 5}], sm=[{GPU: 99}], host_pids=[0]))
    told = {"utilization_percent": 42.0}
    assert values(reader, pod(cores=100), process(), device=told)["utilization_percent"] == 42
    assert values(reader, pod(cores=30), process(), device=told)["utilization_percent"] == 99


def test_files_that_cannot_be_used_are_counted_and_the_grant_is_reported(
    reader: SliceReader, root: Path
) -> None:
    put_region(root, UID, region({GPU: 3000}, magic=7))
    assert values(reader, pod(), process()) == {"memory_limit_mib": 3000}
    put_region(root, UID, b"")
    assert values(reader, pod(), process()) == {"memory_limit_mib": 3000}
    assert reader.problems == {"unusable": 1, "not-ready": 1}


def test_a_whole_card_without_hami_is_a_slice_when_a_process_uses_it(reader: SliceReader) -> None:
    view = PodView(UID, "team", "job-0", {}, {CONTAINER: "main"}, {"main": STARTED})
    assert read(reader, view) == []
    busy = process(memory_used_mib=700, utilization_percent=5)
    assert values(reader, view, busy) == {"memory_used_mib": 700, "utilization_percent": 5, "idle_s": 0}
    calm = process(memory_used_mib=700, utilization_percent=0)
    assert values(reader, view, calm, now=NOW + 60)["idle_s"] == 60
    assert values(reader, view, busy, now=NOW + 90)["idle_s"] == 0
    read(reader, view, now=NOW + 100)
    assert values(reader, view, calm, now=NOW + 200)["idle_s"] == 0, "what was not watched is not idle"


def test_processes_of_other_containers_count_for_no_other(reader: SliceReader) -> None:
    stray = [
        process(10, "ff" * 32, memory_used_mib=9),
        process(11, None, memory_used_mib=9),
    ]
    foreign = ProcessSample(GPU, 12, "x", "someone-else", CONTAINER, {"memory_used_mib": 9.0})
    assert values(reader, pod(), *stray, foreign) == {"memory_limit_mib": 3000, "idle_s": 1000}


def forge(root: Path, now: float = NOW) -> None:
    put_region(
        root, UID,
        region({GPU: 3000}, used_mib=[{GPU: 900}], sm=[{GPU: 90}], host_pids=[0], last_kernel=int(now)),
    )  # fmt: skip


@pytest.mark.parametrize("cores", [30, 100])
def test_a_container_without_a_process_uses_nothing_whatever_its_file_says(
    reader: SliceReader, root: Path, cores: int
) -> None:
    card = {"utilization_percent": 42.0}
    for passed in (0, 60, 300, 600):
        forge(root, NOW + passed)
        found = values(reader, pod(cores=cores), device=card, now=NOW + passed)
        assert (found["memory_used_mib"], found["utilization_percent"], found["idle_s"]) == (0, 0, passed)
    found = values(reader, pod(), process(), now=NOW + 700)
    assert (found["memory_used_mib"], found["utilization_percent"]) == (900, 90)
    assert values(reader, pod(), now=NOW + 715)["idle_s"] == 115, "a process was there 15 s ago"
    put_region(root, UID, b"")
    assert values(reader, pod(), now=NOW + 730)["idle_s"] == 30, "spoiling the file does not end idleness"


@pytest.mark.parametrize("why", ["not listed", "not the host's", "a hidden process", "a new container"])
def test_a_file_counts_where_processes_may_be_missing(reader: SliceReader, root: Path, why: str) -> None:
    forge(root)
    reader.sees_host = why != "not the host's"
    card = GpuSample(GPU, None, 0, {}, lists_processes=why != "not listed")
    others = {
        "a hidden process": [ProcessSample(GPU, 9, "", None, None, {})],
        "a new container": [process(9, "ff" * 32)],
    }.get(why, [ProcessSample(GPU, 9, "Xorg", None, None, {})])
    (sample,) = reader.read({UID: pod()}, [card], others, {GPU: 80_000.0}, NOW)
    assert (sample.values["memory_used_mib"], sample.values["utilization_percent"]) == (900, 90)


@pytest.mark.parametrize("has_file", [True, False])
def test_of_a_device_that_was_not_measured_only_limits_are_reported(
    reader: SliceReader, root: Path, has_file: bool
) -> None:
    limits: dict[str, float] = {"memory_limit_mib": 3000}
    if has_file:
        forge(root)
        limits["memory_enforced_mib"] = 3000
    other = GpuSample("GPU-b", None, 1, {})
    for devices in ([], [other]):
        (sample,) = reader.read({UID: pod()}, devices, [], {GPU: 80_000.0}, NOW)
        assert sample.values == limits


@pytest.mark.parametrize(("gap", "idle_s"), [(60, 75), (900, 0)])
def test_idleness_goes_on_over_a_short_time_without_measures_only(
    reader: SliceReader, gap: int, idle_s: int
) -> None:
    view = PodView(UID, "team", "job-0", {}, {CONTAINER: "main"}, {"main": STARTED})
    calm = process(memory_used_mib=700, utilization_percent=0)
    assert values(reader, view, calm)["idle_s"] == 0
    assert values(reader, view, calm, now=NOW + 15)["idle_s"] == 15
    assert reader.read({UID: view}, [], [], {}, NOW + 30) == []
    assert values(reader, view, calm, now=NOW + 15 + gap)["idle_s"] == idle_s


def test_each_card_and_container_has_a_row(reader: SliceReader) -> None:
    view = pod(
        main={GPU: CardShare(GPU, 1, 1), "GPU-b": CardShare("GPU-b", 2, 1)}, side={GPU: CardShare(GPU, 3, 1)}
    )
    rows = {(row.container, row.device): row.values["memory_limit_mib"] for row in read(reader, view)}
    assert rows == {("main", GPU): 1, ("main", "GPU-b"): 2, ("side", GPU): 3}


def test_enforced_memory_may_be_what_hami_scaled(reader: SliceReader, root: Path) -> None:
    put_region(root, UID, region({GPU: 120_000}))
    assert values(reader, pod(memory_mib=120_000))["memory_enforced_mib"] == 120_000
    assert values(reader, pod(memory_mib=60_000))["memory_enforced_mib"] == 80_000
    assert MIB == 1 << 20
