"""The text of /metrics: names and base units of the catalogue, labels, and a series for each thing once."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clusters.gpu.measures import MEASURES, Level
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.exposition import MetricsExposition, serve_metrics
from telemetry.agent.pods import PodTable
from telemetry.agent.snapshot import GpuSample, NodeSnapshot, SliceSample

DEVICE = {"node": "n1", "device_uuid": "GPU-a", "index": "0", "parent_uuid": ""}
SLICE = {
    "node": "n1",
    "device_uuid": "GPU-a",
    "index": "0",
    "namespace": "team",
    "pod": "job-0",
    "container": "main",
}
ROWS = {"GPU-a": {"index": 0, "parent": None, "name": 'H "1"', "pci_bus_id": "0:1"}}


def series(exposition: MetricsExposition) -> dict[tuple[str, str], float]:
    """Values by name and labels; a name and labels that come twice fail."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(exposition.render().decode()):
        for sample in family.samples:
            key = (sample.name, str(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def labels(row: dict[str, str]) -> str:
    return str(sorted(row.items()))


@pytest.fixture
def exposition() -> MetricsExposition:
    return MetricsExposition("n1", lambda: ROWS, {"GPU-a": 0, "GPU-b": 1}.get)


def test_every_measure_of_every_level_has_a_series_in_its_base_unit(exposition: MetricsExposition) -> None:
    values = {measure.name: 50.0 for measure in MEASURES}
    exposition.set_snapshot(
        NodeSnapshot(
            1.0,
            (GpuSample("GPU-a", None, 0, values),),
            (SliceSample("GPU-a", "u", "team", "job-0", "main", values),),
        )
    )
    found = series(exposition)
    for level, row in ((Level.DEVICE, DEVICE), (Level.SLICE, SLICE)):
        for measure in MEASURES:
            if level in measure.levels:
                assert found[(measure.prometheus_name(level), labels(row))] == 50 * measure.factor


def test_the_name_of_a_series_belongs_to_one_level() -> None:
    names = [measure.prometheus_name(level) for measure in MEASURES for level in measure.levels]
    assert len(set(names)) == len(names)


def test_an_absent_measure_has_no_series_and_an_absent_device_says_why(exposition: MetricsExposition) -> None:
    exposition.set_snapshot(NodeSnapshot(1.0, (GpuSample("GPU-a", None, 0, {}),), absent={"GPU-b": "hung"}))
    found = series(exposition)
    assert not [name for name, _ in found if name.startswith("allotment_gpu_power")]
    up = {"node": "n1", "device_uuid": "GPU-a", "index": "0", "reason": ""}
    assert found[("allotment_gpu_up", labels(up))] == 1
    down = {**up, "device_uuid": "GPU-b", "index": "1", "reason": "hung"}
    assert found[("allotment_gpu_up", labels(down))] == 0


@pytest.fixture
def alive() -> list[bool]:
    """Return whether polls continue."""
    return [True]


@pytest.fixture
def address(exposition: MetricsExposition, alive: list[bool]) -> Iterator[str]:
    server = serve_metrics("127.0.0.1", 0, exposition.render, lambda: alive[0])
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_metrics_are_served_and_nothing_else(address: str, alive: list[bool]) -> None:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    with urllib.request.urlopen(f"{address}/healthz", timeout=10) as answer:
        assert answer.read() == b"ok\n"
    alive[0] = False
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"{address}/healthz", timeout=10)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/etc/passwd", timeout=10)


def test_the_agents_own_metrics_are_there_before_the_first_poll(tmp_path: Path) -> None:
    options = TelemetryOptions("n1", tmp_path, tmp_path, platform_url="http://127.0.0.1:1", key_file=tmp_path)
    text = assemble_telemetry(options, PodTable()).exposition.render().decode()
    for name in (
        "poll_seconds",
        "buffer_batches",
        "buffer_bytes",
        "nvml_starts_total",
        "poll_failures_total",
    ):
        assert f'allotment_agent_{name}{{node="n1"}} 0.0' in text
