"""A real Prometheus server: what it scraped is read back, with the times and gaps that it really has."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.support.ports import free_port
from clusters.gpu.measures import Level
from telemetry.models import SourceKind
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.history import Buckets, PrometheusHistory
from telemetry.sources.reading import SourcePlan, read_sources
from telemetry.sources.samples import MeasuredTarget
from tests.builders import expositions as exp
from tests.fixtures.http_receiver import run_receiver
from tests.fixtures.need import need
from tests.fixtures.programs import run_to_end, wait_for_end

pytestmark = pytest.mark.server
MINUTE: Final = 60_000
START: Final = 1_700_000_040_000
"""A whole minute, in the past of every test."""
PODS: Final = {"exported_namespace": "team-a", "exported_pod": "train-0", "exported_container": "main"}


@dataclass(frozen=True)
class Server:
    """A running server whose stored samples are those of `_backfill`, and which scrapes an exporter."""

    url: str

    def plan(self, **matchers: str) -> SourcePlan:
        return SourcePlan("p", SourceKind.PROMETHEUS, self.url, matchers=matchers)


def _backfill() -> str:
    """Return ten minutes of samples each 15 s, as text with times in seconds; minutes 4 and 5 are missing.

    GPU 0: use is the number of the minute times ten, from two replicas of DCGM; HAMi reports 99 all the time,
    and is the only source for minute 9. A pod with two containers uses 100 and 200 MiB of GPU 0.
    """
    families: dict[str, list[str]] = {}

    def add(name: str, value: float, second: float, **labels: str) -> None:
        families.setdefault(name, []).append(exp.line(name, f"{value} {second:.3f}", **labels))

    for number in range(40):
        at, minute = START / 1000 + 15 * number + 7, number // 4
        if minute in (4, 5):
            continue
        for replica in ("a", "b"):
            if minute != 9:
                labels = {"UUID": exp.GPU_0, "instance": replica, "cluster": "one"}
                add("DCGM_FI_DEV_GPU_UTIL", 10 * minute, at, **labels)
                add("DCGM_FI_DEV_GPU_UTIL", 3, at, **{**labels, "GPU_I_ID": "7"})
                add("DCGM_FI_DEV_GPU_UTIL", 77, at, **{**labels, "cluster": "two"})
        add("hami_host_gpu_utilization_ratio", 99, at, device_uuid=exp.GPU_0, cluster="one")
        for container, mib in (("main", 100), ("side", 200)):
            pod = {**PODS, "exported_container": container, "pod": "hami-monitor-x", "namespace": "hami"}
            labels = {**pod, "device_uuid": exp.GPU_0, "cluster": "one"}
            add("hami_vgpu_memory_used_bytes", mib * 2**20, at, **labels)
            other = {**labels, "exported_namespace": "team-b"}
            add("hami_vgpu_memory_used_bytes", 7 * 2**20, at, **other)
    lines = [row for name in sorted(families) for row in [f"# TYPE {name} gauge", *families[name]]]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program, tool = shutil.which("prometheus"), shutil.which("promtool")
    if program is None or tool is None:
        need("prometheus", "apt-get install prometheus, or put the program of its package on the path")
    home: Path = tmp_path_factory.mktemp("prometheus")
    (home / "samples").write_text(_backfill(), encoding="utf-8")
    run_to_end(
        [tool, "tsdb", "create-blocks-from", "openmetrics", home / "samples", home / "data"],
        check=True, capture_output=True, within_s=60,
    )  # fmt: skip
    with run_receiver() as exporter:
        exporter.headers = {"Content-Type": "text/plain; version=0.0.4"}
        exporter.body = exp.text(*exp.dcgm(exp.DCGM_DEFAULT, gpu=exp.GPU_1)).encode()
        target = exporter.url.removeprefix("http://")
        (home / "config.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: dcgm, static_configs: [{{targets: ['{target}']}}]}}]\n",
            encoding="utf-8",
        )
        url = f"http://127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [program, f"--config.file={home / 'config.yml'}", f"--storage.tsdb.path={home / 'data'}",
             f"--web.listen-address={url.removeprefix('http://')}", "--storage.tsdb.retention.time=100y"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_until_scraped(url)
            yield Server(url)
        finally:
            process.terminate()
            wait_for_end(process, within_s=20)


def _wait_until_scraped(url: str) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        with (
            suppress(OSError),  # it is not up yet
            urllib.request.urlopen(f"{url}/api/v1/query?query=DCGM_FI_DEV_FB_USED", timeout=5) as answer,
        ):
            if b"20480" in answer.read():
                return
        time.sleep(0.1)
    raise AssertionError("Prometheus has scraped nothing")


@pytest.fixture(autouse=True)
def reachable(settings: Any) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]


BUCKETS: Final = Buckets(START - 2 * MINUTE, START + 12 * MINUTE, MINUTE)


def _by_minute(found: Any) -> dict[int, float]:
    return {(at - START) // MINUTE: round(value, 6) for at, value in found.items()}


def test_what_the_server_scrapes_now_is_read_with_its_units_and_times(server: Server) -> None:
    now_ms = round(time.time() * 1000)
    result = read_sources([server.plan()], now_ms=now_ms)["p"]
    readings = result.readings[MeasureOrigin.DCGM]
    target = MeasuredTarget(Level.DEVICE, exp.GPU_1)
    assert result.failed is None
    assert readings.values == {target: exp.DCGM_EXPECTED}
    assert now_ms - 30_000 < readings.times[target] <= now_ms + 5_000


def test_history_keeps_gaps_and_counts_replicas_and_exporters_once(server: Server) -> None:
    history = PrometheusHistory(server.plan(cluster="one"))
    found = history.device_means("utilization_percent", [exp.GPU_0, exp.GPU_1], BUCKETS)
    assert set(found) == {exp.GPU_0}
    expected = {minute: 10.0 * minute for minute in range(9) if minute not in (4, 5)}
    assert _by_minute(found[exp.GPU_0]) == expected | {9: 99.0}


def test_longer_steps_average_what_there_is(server: Server) -> None:
    history = PrometheusHistory(server.plan(cluster="two"))
    buckets = Buckets(START, START + 10 * MINUTE, 5 * MINUTE)
    found = history.device_means("utilization_percent", [exp.GPU_0], buckets)
    assert _by_minute(found[exp.GPU_0]) == {0: 77.0, 5: 77.0}


def test_the_containers_of_a_pod_add_up_and_no_other_tenant_is_read(server: Server) -> None:
    history = PrometheusHistory(server.plan(cluster="one"))
    own = (exp.GPU_0, "team-a", "train-0")
    found = history.slice_means("memory_used_mib", [own], BUCKETS)
    assert set(found) == {own}
    present = [minute for minute in range(10) if minute not in (4, 5)]
    assert _by_minute(found[own]) == dict.fromkeys(present, 300.0)
    assert history.slice_means("memory_used_mib", [(exp.GPU_0, "team-c", "train-0")], BUCKETS) == {}


def test_nothing_is_asked_for_means_nothing_is_found(server: Server) -> None:
    history = PrometheusHistory(server.plan())
    assert history.device_means("utilization_percent", [], BUCKETS) == {}
    assert history.slice_means("memory_used_mib", [], BUCKETS) == {}
    assert history.device_means("sharing_containers", ["GPU-x"], BUCKETS) == {}


def test_labels_with_marks_of_promql_match_themselves_alone(server: Server) -> None:
    for text in ('one"} or vector(1)', ".*", "one|two", "o\\ne", "a\nb", "ö"):
        history = PrometheusHistory(server.plan(cluster=text))
        assert history.device_means("utilization_percent", [exp.GPU_0, text], BUCKETS) == {}
