"""The agent as a whole: from the driver, the pods and HAMi's files to /metrics and the platform."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.gpu.hami import CardShare
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.pods import PodTable, PodView
from telemetry.agent.telemetry import Telemetry
from tests.builders.node_files import CONTAINER, cgroup_path, put_process
from tests.builders.regions import put_region, region
from tests.fixtures.nvml_driver import Driver
from tests.fixtures.programs import wait_for_end
from tests.fixtures.sample_server import SampleServer
from tests.fixtures.wait import alive, wait_until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"
UID = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"
NO_INSTANCE = "4294967295 4294967295"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("key-1")
    return file


@pytest.fixture
def pods() -> PodTable:
    return PodTable()


@pytest.fixture
def telemetry(
    driver: Driver, sample_server: SampleServer, key_file: Path, pods: PodTable, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Telemetry]:  # fmt: skip
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    options = TelemetryOptions(
        "gpu-1", tmp_path / "hami", tmp_path / "proc", nvml_timeout_s=20, platform_url=sample_server.url,
        key_file=key_file,
    )  # fmt: skip
    made = assemble_telemetry(options, pods)
    yield made
    made.stop()


def step(telemetry: Telemetry) -> None:
    """One poll, sent at once."""
    telemetry.poll_once()
    assert telemetry.pusher is not None
    telemetry.pusher.push_once()


def text(telemetry: Telemetry) -> str:
    telemetry.exposition._fresh_until = 0
    return telemetry.exposition.render().decode()


def test_a_slice_is_followed_from_the_driver_to_the_platform(
    telemetry: Telemetry, driver: Driver, sample_server: SampleServer, pods: PodTable, tmp_path: Path
) -> None:
    share = {"main": {FIRST: CardShare(FIRST, 3000, 30)}}
    pods.pods = {UID: PodView(UID, "team", "job-0", share, {CONTAINER: "main"}, {"main": 1e9})}
    put_process(tmp_path / "proc", 4711, cgroup_path(UID), "train")
    put_process(tmp_path / "proc", 4712, "/user.slice", "miner")
    put_region(tmp_path / "hami", UID, region({FIRST: 3000}, used_mib=[{FIRST: 9}], host_pids=[4711]))
    driver.put(
        {
            "0.process.0": f"4711 2900 C {NO_INSTANCE} 25 0 0 0",
            "0.process.1": f"4712 100 C {NO_INSTANCE} 5 0 0 0",
        }
    )
    step(telemetry)
    assert sample_server.requests == [("/api/v1/agent/samples", 200)], "the platform's own reader takes it"
    (body,) = sample_server.bodies
    (batch,) = body["batches"]
    assert [row["uuid"] for row in batch["devices"]] == [FIRST, SECOND]
    (row,) = batch["slices"]
    assert (row["device"], row["pod_uid"], row["container"]) == (FIRST, UID, "main")
    used = {
        "memory_limit_mib": 3000,
        "memory_enforced_mib": 3000,
        "memory_used_mib": 2900,
        "utilization_percent": 25,
    }
    assert {name: row["values"][name] for name in used} == used
    told = [(each["pid"], each["name"], each["pod_uid"], each["container_id"]) for each in batch["processes"]]
    assert told == [(4711, "train", UID, CONTAINER), (4712, "miner", None, None)]
    assert [row["uuid"] for row in body["inventory"]["devices"]] == [FIRST, SECOND]
    assert "graphics_active_percent" in body["unsupported"][FIRST]
    shown = text(telemetry)
    assert (
        f'allotment_gpu_slice_memory_used_bytes{{container="main",device_uuid="{FIRST}",index="0",'
        f'namespace="team",node="gpu-1",pod="job-0"}} 3.0408704e+09'
    ) in shown
    assert "miner" not in shown


def test_metrics_and_samples_go_on_while_the_driver_hangs(
    telemetry: Telemetry, driver: Driver, sample_server: SampleServer, pods: PodTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    step(telemetry)
    share = {"main": {FIRST: CardShare(FIRST, 3000, 30)}}
    pods.pods = {UID: PodView(UID, "team", "job-0", share, {}, {"main": 1e9})}
    log = driver.file.with_name("log")
    driver.put({"hang.nvmlDeviceGetUtilizationRates.0": 1, "log": log})
    monkeypatch.setattr("telemetry.agent.telemetry._WAIT_SHARE", 0.002)
    wait_until(lambda: step(telemetry) or "UtilizationRates 0" in log.read_text(), "the call that hangs")
    driver.put({"log": None})
    nvml = telemetry.sampler.nvml
    nvml.clock = lambda: time.monotonic() + 30
    step(telemetry)
    last = sample_server.batches[-1]
    assert (last["devices"], len(last["slices"])) == ([], 1)
    hung = f'allotment_gpu_up{{device_uuid="{FIRST}",index="0",node="gpu-1",reason="hung"}} 0.0'
    assert hung in text(telemetry)
    monkeypatch.setattr("telemetry.agent.telemetry._WAIT_SHARE", 1)
    step(telemetry)
    assert [row["uuid"] for row in sample_server.batches[-1]["devices"]] == [SECOND]
    shown = text(telemetry)
    assert f'allotment_gpu_up{{device_uuid="{SECOND}",index="1",node="gpu-1",reason=""}} 1.0' in shown
    assert f'allotment_gpu_power_watts{{device_uuid="{FIRST}"' not in shown, (
        "a sick device shows no old numbers"
    )


def test_nothing_is_lost_while_the_platform_is_away(
    telemetry: Telemetry, sample_server: SampleServer, key_file: Path
) -> None:
    assert sample_server.server
    port = sample_server.server.server_port
    sample_server.stop()
    for _ in range(3):
        step(telemetry)
    assert 'allotment_agent_buffer_batches{node="gpu-1"} 3.0' in text(telemetry)
    sample_server.start(port)
    step(telemetry)
    times = [batch["at_ms"] for batch in sample_server.batches]
    assert len(times) == 4
    assert times == sorted(times)
    assert 'allotment_agent_pushes_total{node="gpu-1",result="unreachable"} 3.0' in text(telemetry)


def test_the_agent_says_when_a_new_start_would_help(telemetry: Telemetry) -> None:
    assert telemetry.is_alive()
    telemetry.sampler.unusable_since = time.monotonic() - 301
    assert not telemetry.is_alive()
    telemetry.sampler.unusable_since = time.monotonic()
    assert telemetry.is_alive()
    telemetry.polled_at = time.monotonic() - 121
    assert not telemetry.is_alive()


def test_an_agent_without_a_driver_still_reports(
    telemetry: Telemetry, driver: Driver, sample_server: SampleServer
) -> None:
    driver.put({"error.nvmlInitWithFlags": 9})
    step(telemetry)
    (batch,) = sample_server.batches
    assert (batch["devices"], batch["slices"], batch["processes"]) == ([], [], [])
    assert 'allotment_agent_polls_total{node="gpu-1",state="nvml-missing"} 1.0' in text(telemetry)


def test_a_fault_in_a_reading_ends_no_polls(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        telemetry._stop.set()
        raise RuntimeError("planted")

    monkeypatch.setattr(type(telemetry), "poll_once", lambda _: fail())
    telemetry.run()
    assert telemetry.failures == 1


def test_the_command_measures_and_ends_with_its_process(
    driver: Driver, sample_server: SampleServer, key_file: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable, "-m", "telemetry.agent.cli", "--node", "gpu-1", "--standalone", "--metrics-port", "0",
        "--platform-url", sample_server.url, "--key-file", str(key_file), "--root", str(tmp_path),
    ]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, **driver.environment}, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: sample_server.batches, "a batch arrives")
        worker = Path(f"/proc/{process.pid}/task")
        children = [int(pid) for task in worker.iterdir() for pid in (task / "children").read_text().split()]
        assert children
    finally:
        process.send_signal(signal.SIGTERM)
        ended = wait_for_end(process, within_s=20)
    assert ended == 0
    wait_until(lambda: not any(alive(pid) for pid in children), "the process that calls NVML ends")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--standalone"], "--node is missing"),
        (["--node", "n", "--standalone", "--interval", "0"], "--interval"),
        (["--node", "n", "--standalone", "--platform-url", "ftp://x"], "--platform-url begins"),
        (["--node", "n", "--standalone", "--platform-url", "http://x"], "--platform-url needs --key-file"),
        (["--node", "n"], "--server is missing"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from telemetry.agent.cli import main  # noqa: PLC0415 (its defaults are read from the environment)

    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
