"""Input from containers or a cluster never ends the agent: its files, cgroups, pods.

`ALLOTMENT_FUZZ=10000` tries that many of each kind, other ones each time.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.gpu.hami import ALLOCATED, CardShare
from telemetry.agent.cgroups import ProcessTable, parse_owner
from telemetry.agent.pods import PodTable, PodView
from telemetry.agent.regions import NotReady, Unusable, read_regions
from telemetry.agent.slices import SliceReader
from telemetry.agent.snapshot import GpuSample, ProcessSample
from tests.builders.regions import SIZE, put_region, region

EXAMPLES: Final = int(os.environ.get("ALLOTMENT_FUZZ", "40"))
TRIED = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)  # fmt: skip
UID, GPU, TOTAL = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55", "GPU-a", 80_000.0
PLACES: Final = (0, 4, 56, 64, 160, 1600, 1728, 1856, 1860, 1896, 3016, 2_008_896, 2_008_912)
NUMBERS = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
PARTS: Final = (
    *("0::", "1:cpu:", "/", "..", "-", "\n", "kubepods", "pod", ".slice"),
    *(UID, UID.replace("-", "_"), "a" * 64),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hami")


@TRIED
@given(
    writes=st.lists(st.tuples(st.sampled_from(PLACES) | st.integers(0, SIZE - 8), NUMBERS), max_size=12),
    size=st.sampled_from([SIZE, SIZE, SIZE, SIZE - 1, SIZE - 2, 0, 100, SIZE + 1]),
)
def test_a_file_with_any_content_gives_bounded_values_or_none(
    root: Path, writes: list[tuple[int, int]], size: int
) -> None:
    data = region({GPU: 3000, "GPU-b": 10}, used_mib=[{GPU: 5}, {GPU: 6}], host_pids=[0, 0])
    for place, number in writes:
        struct.pack_into("<Q", data, place, number)
    put_region(root, UID, bytes(data[:size]).ljust(size, b"\0"))
    with contextlib.suppress(NotReady, Unusable):
        read_regions(root / f"{UID}_main")
    share = {"main": {GPU: CardShare(GPU, 3000, 30)}}
    pod = PodView(UID, "team", "job-0", share, {}, {"main": 100.0})
    reader = SliceReader(root, ProcessTable(root / "proc"), sees_host=False)
    (sample,) = reader.read({UID: pod}, [GpuSample(GPU, None, 0, {})], [], {GPU: TOTAL}, 1000.0)
    values = sample.values
    assert 0 <= values.get("memory_used_mib", 0) <= TOTAL
    assert 0 <= values.get("memory_enforced_mib", 0) <= TOTAL
    assert 0 <= values.get("utilization_percent", 0) <= 100
    assert 0 <= values.get("idle_s", 0) <= 900
    assert values["memory_limit_mib"] == 3000


@TRIED
@given(text=st.text() | st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_any_cgroup_gives_a_pod_or_none(text: str) -> None:
    owner = parse_owner(text)
    assert owner is None or (31 <= len(owner.pod_uid) <= 36 and "/" not in owner.pod_uid)


CONTAINERS = JSON | st.lists(st.fixed_dictionaries({"name": JSON}), max_size=3)
SHARE_PARTS: Final = ("GPU-a", "NVIDIA", ",", "-1", "3000", ":", ";", "")
SHARES = st.lists(st.sampled_from(SHARE_PARTS), max_size=12).map("".join)
ANNOTATIONS = JSON | st.fixed_dictionaries({ALLOCATED: JSON | SHARES})
STATUSES = JSON | st.lists(
    st.fixed_dictionaries({"name": JSON, "containerID": JSON, "state": JSON}), max_size=2
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": JSON
        | st.fixed_dictionaries({"uid": st.just(UID) | JSON}, optional={"annotations": ANNOTATIONS}),
        "spec": JSON
        | st.fixed_dictionaries({"containers": CONTAINERS}, optional={"initContainers": CONTAINERS}),
        "status": JSON | st.fixed_dictionaries({}, optional={"phase": JSON, "containerStatuses": STATUSES}),
    },
)


@TRIED
@given(pods=st.lists(PODS, max_size=3))
def test_any_pod_is_read_or_left_out(root: Path, pods: list[dict[str, Any]]) -> None:
    table = PodTable()
    table.replace_pods(pods)
    for pod in pods:
        table.put_pod(pod)
    processes = [ProcessSample(GPU, 1, "x", UID, None, {})]
    reader = SliceReader(root, ProcessTable(root / "proc"))
    for sample in reader.read(table.pods, [], processes, {GPU: TOTAL}, 1000.0):
        assert sample.values.get("memory_limit_mib", 0) >= 0
