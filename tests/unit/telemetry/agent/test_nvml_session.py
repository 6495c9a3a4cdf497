"""The readings of the real binding, in the units of the catalogue; the driver is a replacement in C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.gpu.measures import BY_NAME, Level
from telemetry.agent.describing import list_given_measures
from telemetry.agent.nvml import inventory
from telemetry.agent.nvml.calls import Calls
from tests.fixtures.nvml_driver import Driver
from tests.fixtures.programs import wait_for_end
from tests.fixtures.wait import wait_until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"
SCRIPT = "from telemetry.agent.nvml.worker import main; main()"


class Worker:
    """A process with the library loaded, polled by the test."""

    def __init__(self, driver: Driver, *skipped: int) -> None:
        self._note = os.memfd_create("note")
        os.ftruncate(self._note, 256)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(self._note), *map(str, skipped)],
            env={**os.environ, **driver.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            pass_fds=(self._note,), text=True,
        )  # fmt: skip

    def poll(self) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def values(self, uuid: str = FIRST) -> dict[str, float]:
        return next(row["values"] for row in self.poll()["devices"] if row["uuid"] == uuid)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._note)


@pytest.fixture
def worker(driver: Driver) -> Iterator[Worker]:
    made = Worker(driver)
    yield made
    made.close()


def test_each_measure_has_the_unit_of_the_catalogue(worker: Worker) -> None:
    assert worker.values(SECOND) == {
        "utilization_percent": 15, "memory_copy_percent": 1, "memory_used_mib": 1001,
        "memory_total_mib": 81559, "memory_reserved_mib": 500, "encoder_percent": 0, "decoder_percent": 3,
        "temperature_c": 41, "memory_temperature_c": 55, "power_w": 123.456, "power_limit_w": 700,
        "energy_j": 9876543.21, "sm_clock_mhz": 1980, "memory_clock_mhz": 2619, "video_clock_mhz": 1545,
        "app_sm_clock_mhz": 1755, "app_memory_clock_mhz": 2600, "throttle_reasons": 4,
        "ecc_corrected": 2, "ecc_uncorrected": 1, "remapped_rows": 4, "row_remap_pending": 1,
        "row_remap_failure": 0, "pcie_tx_mib_s": 1.953125, "pcie_rx_mib_s": 0.9765625, "pcie_replays": 7,
        "nvlink_errors": 3,
    }  # fmt: skip


def test_every_measure_is_of_the_catalogue_and_of_its_level(driver: Driver, worker: Worker) -> None:
    driver.put({"0.process.0": "4711 300 C 4294967295 4294967295 40 2 0 0"})
    answer = worker.poll()
    for rows, level in ((answer["devices"], Level.DEVICE), (answer["processes"], Level.PROCESS)):
        assert rows
        assert all(level in BY_NAME[name].levels for row in rows for name in row["values"])
    assert all(name in BY_NAME for names in answer["unsupported"].values() for name in names)


def test_a_call_that_is_not_supported_is_absent_and_not_made_again(driver: Driver, worker: Worker) -> None:
    log = driver.file.with_name("log")
    driver.put({"0.power": None, "error.nvmlDeviceGetEncoderUtilization.0": 4, "log": log})
    for _ in range(3):
        answer = worker.poll()
    values = {row["uuid"]: row["values"] for row in answer["devices"]}
    assert {"power_w", "encoder_percent"}.isdisjoint(values[FIRST])
    assert values[SECOND]["power_w"] == 123.456
    assert {"power_w", "encoder_percent"} <= set(answer["unsupported"][FIRST])
    assert "power_w" not in answer["unsupported"][SECOND]
    calls = log.read_text().splitlines()
    assert calls.count("nvmlDeviceGetPowerUsage 0") == 1
    assert calls.count("nvmlDeviceGetPowerUsage 1") == 3


def test_a_call_that_fails_is_absent_and_made_again(driver: Driver, worker: Worker) -> None:
    driver.put({"error.nvmlDeviceGetPowerUsage.0": 999})
    answer = worker.poll()
    assert "power_w" not in answer["devices"][0]["values"]
    assert "power_w" not in answer["unsupported"][FIRST]
    assert answer["errors"] == {"nvmlDeviceGetPowerUsage": 1}
    driver.put({"error.nvmlDeviceGetPowerUsage.0": None})
    assert worker.values()["power_w"] == 123.456


def test_older_calls_replace_those_that_a_driver_lacks(driver: Driver, worker: Worker) -> None:
    driver.put(
        {
            "error.nvmlDeviceGetMemoryInfo_v2": 13, "0.memory1": "40960 1500",
            "error.nvmlDeviceGetTemperatureV": 13,
        }
    )  # fmt: skip
    values = worker.values()
    assert (values["memory_used_mib"], values["memory_total_mib"]) == (1500, 40960)
    assert "memory_reserved_mib" not in values
    assert values["temperature_c"] == 40


def test_impossible_numbers_are_left_out(driver: Driver, worker: Worker) -> None:
    driver.put({"0.utilization": "4294967295 7", "0.energy": 2**64 - 1, "0.field.82": 4294967295})
    values = worker.values()
    assert {"utilization_percent", "memory_temperature_c"}.isdisjoint(values)
    assert values["memory_copy_percent"] == 7


@pytest.mark.parametrize(("code", "kind"), [(15, "lost"), (16, "reset-required")])
def test_a_lost_device_is_reported_once_and_the_others_go_on(
    driver: Driver, worker: Worker, code: int, kind: str
) -> None:
    worker.poll()
    driver.put({"error.*.0": code})
    first, second = worker.poll(), worker.poll()
    assert (first["fallen"], first["down"]) == ({FIRST: kind}, {"0": kind})
    assert (second["fallen"], second["down"]) == ({}, {"0": kind})
    assert [row["uuid"] for row in first["devices"]] == [SECOND]


def test_a_device_lost_before_the_start_is_down(driver: Driver) -> None:
    driver.put({"error.*.1": 15})
    worker = Worker(driver)
    try:
        answer = worker.poll()
    finally:
        worker.close()
    assert answer["down"] == {"1": "lost"}
    assert [row["uuid"] for row in answer["inventory"]["devices"]] == [FIRST]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ({"error.nvmlInitWithFlags": 18}, "driver-mismatch"),
        ({"error.nvmlInitWithFlags": 9}, "nvml-missing"),
        ({"error.nvmlDeviceGetPowerUsage": 18}, "driver-mismatch"),
    ],
)
def test_a_driver_that_cannot_be_used_is_reported(
    driver: Driver, lines: dict[str, object], problem: str
) -> None:
    driver.put(lines)
    worker = Worker(driver)
    try:
        assert worker.poll()["problem"] == problem
        assert wait_for_end(worker.process, within_s=10) == 0
    finally:
        worker.close()


def test_a_node_without_the_library_is_reported(driver: Driver, tmp_path: Any) -> None:
    worker = Worker(Driver(tmp_path / "nothing", driver.file))
    try:
        assert worker.poll()["problem"] == "nvml-missing"
    finally:
        worker.close()


def test_the_inventory_has_places_and_links(driver: Driver, worker: Worker) -> None:
    inventory = worker.poll()["inventory"]
    versions = {name: inventory[name] for name in ("driver", "nvml", "cuda")}
    assert versions == {"driver": "580.95.05", "nvml": "13.580.95.05", "cuda": "13.0"}
    first, second = inventory["devices"]
    assert first["links"] == [
        {"to": SECOND, "kind": "same-cpu", "count": 1}, {"to": SECOND, "kind": "nvlink", "count": 4},
    ]  # fmt: skip
    assert {name: second[name] for name in second.keys() - {"links"}} == {
        "uuid": SECOND, "name": "NVIDIA H100 80GB HBM3", "serial": "165000001", "index": 1, "minor": 1,
        "pci_bus_id": "00000000:19:00.0", "numa_node": 0, "memory_mib": 81559, "mig_enabled": False,
        "parent": None,
    }  # fmt: skip
    assert worker.poll()["inventory"] is None, "it is told once"


def test_links_end_behind_the_last_one_and_are_no_errors(driver: Driver) -> None:
    log = driver.file.with_name("log")
    driver.put({"log": log})
    worker = Worker(driver)
    try:
        answer = worker.poll()
    finally:
        worker.close()
    assert log.read_text().count("nvmlDeviceGetNvLinkState 0\n") == 5
    assert answer["errors"] == {}


def test_the_numa_node_is_the_kernels_where_the_driver_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "PCI_DEVICES", tmp_path)
    file = tmp_path / "0000:18:00.0" / "numa_node"
    file.parent.mkdir()
    device = inventory.NvmlDevice("GPU-a", 0, None, "00000000:18:00.0")
    calls = Calls()
    calls.refuse("GPU-a", "nvmlDeviceGetNumaNodeId")
    for text, expected in (("1\n", 1), ("-1\n", None), ("x", None)):
        file.write_text(text)
        assert inventory._numa_node(calls, device) == expected
    file.unlink()
    assert inventory._numa_node(calls, device) is None


def test_a_gpm_sample_that_fails_is_used_again(driver: Driver) -> None:
    log = driver.file.with_name("log")
    driver.put({"0.gpm": 1, "error.nvmlGpmSampleGet.0": 999, "log": log})
    worker = Worker(driver)
    try:
        for _ in range(4):
            worker.poll()
        driver.put({"error.nvmlGpmSampleGet.0": 3})
        unsupported = worker.poll()["unsupported"]
    finally:
        worker.close()
    assert log.read_text().count("nvmlGpmSampleAlloc") == 1
    assert "sm_active_percent" in unsupported[FIRST]


def test_links_to_one_gpu_are_counted_by_pair(driver: Driver) -> None:
    driver.put({f"{index}.link.{link}": None for index in range(2) for link in range(4)})
    other = "00000000:19:00.0"
    driver.put({"0.link.0": f"1 {other}", "0.link.1": f"0 {other}", "0.link.2": f"1 {other}"})
    worker = Worker(driver)
    try:
        first, _ = worker.poll()["inventory"]["devices"]
    finally:
        worker.close()
    assert first["links"][-1] == {"to": SECOND, "kind": "nvlink", "count": 2}


def test_mig_instances_have_rows_and_processes_of_their_own(driver: Driver, worker: Worker) -> None:
    assert worker.poll()["inventory"] is not None
    driver.put(
        {
            "0.mig": 1, "0.mig.0": "7 0 MIG-a 9728 100", "0.mig.2": "9 0 MIG-b 9728 0",
            "error.nvmlDeviceGetUtilizationRates.0": 3,
            "0.process.0": "4711 90 C 7 0 0 0 0 0", "0.process.1": "4712 -1 C 9 0 0 0 0 0",
        }
    )  # fmt: skip
    answer = worker.poll()
    rows = {row["uuid"]: row for row in answer["devices"]}
    assert (rows["MIG-a"]["parent"], rows["MIG-a"]["values"]["memory_used_mib"]) == (FIRST, 100)
    assert "utilization_percent" in answer["unsupported"][FIRST]
    assert answer["processes"] == [
        {"device": "MIG-a", "pid": 4711, "values": {"memory_used_mib": 90}},
        {"device": "MIG-b", "pid": 4712, "values": {}},
    ]
    told = {row["uuid"]: row["parent"] for row in answer["inventory"]["devices"]}
    assert told == {FIRST: None, "MIG-a": FIRST, "MIG-b": FIRST, SECOND: None}
    driver.put({"0.mig.2": None})
    assert {row["uuid"] for row in worker.poll()["inventory"]["devices"]} == {FIRST, "MIG-a", SECOND}


def test_the_utilization_of_a_mig_instance_is_the_activity_of_its_engine(driver: Driver) -> None:
    driver.put(
        {
            "0.mig": 1, "0.mig.0": "7 0 MIG-a 9728 100", "0.gpm": 1, "0.gpm.1": 80, "0.gpm.7.1": 37.5,
            "error.nvmlDeviceGetUtilizationRates.0": 3,
        }
    )  # fmt: skip
    worker = Worker(driver)
    try:
        worker.poll()
        rows = {row["uuid"]: row["values"] for row in worker.poll()["devices"]}
    finally:
        worker.close()
    assert (rows["MIG-a"]["utilization_percent"], rows["MIG-a"]["graphics_active_percent"]) == (37.5, 37.5)
    assert "utilization_percent" not in rows[FIRST], "the whole is not one of its parts"


def test_processes_have_memory_and_utilization(driver: Driver, worker: Worker) -> None:
    none = "4294967295 4294967295"
    driver.put(
        {
            "0.process.0": f"10 300 C {none} 40 2 1 0", "0.process.1": f"11 200 C {none} 0 0 0 0",
            "0.process.2": f"12 50 G {none} 0 0 0 0", "0.process.3": f"10 310 M {none} 40 2 1 0",
        }
    )  # fmt: skip
    found = {row["pid"]: row["values"] for row in worker.poll()["processes"]}
    assert found[10] == {
        "memory_used_mib": 310,
        "utilization_percent": 40,
        "encoder_percent": 1,
        "decoder_percent": 0,
    }
    assert found[11] == {"memory_used_mib": 200, "utilization_percent": 0}
    assert found[12]["memory_used_mib"] == 50


@pytest.mark.parametrize(
    ("call", "code", "complete"),
    [
        ("nvmlDeviceGetComputeRunningProcesses", 3, False),
        ("nvmlDeviceGetComputeRunningProcesses", 999, False),
        ("nvmlDeviceGetGraphicsRunningProcesses", 999, False),
        ("nvmlDeviceGetMPSComputeRunningProcesses", 3, True),
    ],
)
def test_a_device_reports_whether_its_processes_are_all_known(
    driver: Driver, worker: Worker, call: str, code: int, complete: bool
) -> None:
    driver.put({f"error.{call}_v3.0": code})
    told = {row["uuid"]: row["lists_processes"] for row in worker.poll()["devices"]}
    assert told == {FIRST: complete, SECOND: True}


@pytest.mark.parametrize("empty_success", [None, 1])
def test_no_sample_of_a_process_is_no_failure(
    driver: Driver, worker: Worker, empty_success: int | None
) -> None:
    none = "4294967295 4294967295"
    driver.put({"0.process.0": f"10 300 C {none} 0 0 0 0", "empty-success": empty_success})
    busy = worker.poll()
    assert "utilization_percent" not in busy["processes"][0]["values"], "the driver may never give a sample"
    driver.put({"0.utilization": "0 0"})
    idle = worker.poll()
    assert idle["processes"][0]["values"]["utilization_percent"] == 0
    assert idle["errors"] == {}


def test_gpm_gives_means_from_the_second_poll_on(driver: Driver) -> None:
    driver.put(
        {
            "0.gpm": 1, "0.gpm.1": 61.5, "0.gpm.2": 50, "0.gpm.3": 25, "0.gpm.5": 12, "0.gpm.10": 100.2,
            "0.gpm.11": 0.5, "0.gpm.12": 31.25, "0.gpm.13": 7,
            "0.gpm.20": 300, "0.gpm.21": 400, "0.gpm.60": 1000, "0.gpm.61": 2000,
        }
    )  # fmt: skip
    worker = Worker(driver)
    try:
        assert "graphics_active_percent" not in worker.values()
        values = worker.values()
        unsupported = worker.poll()["unsupported"]
    finally:
        worker.close()
    assert set(values) == list_given_measures() - {"xid", "xid_errors"}, "docs/agent.md lists no other"
    assert (values["graphics_active_percent"], values["dram_active_percent"]) == (61.5, 100)
    cores = ("fp64_active_percent", "fp32_active_percent", "fp16_active_percent")
    assert [values[name] for name in cores] == [0.5, 31.25, 7]
    assert (values["pcie_tx_mib_s"], values["pcie_rx_mib_s"], values["nvlink_mib_s"]) == (300, 400, 3000)
    assert "sm_active_percent" in unsupported[SECOND]
    assert "sm_active_percent" not in unsupported[FIRST]


def test_an_activity_that_the_library_does_not_know_is_not_supported(driver: Driver) -> None:
    known = {f"0.gpm.{metric}": 10 for metric in (1, 2, 3, 5, 10, 11, 12, 20, 21)}
    driver.put({"0.gpm": 1, **known})
    worker = Worker(driver)
    try:
        worker.poll()
        worker.poll()
        driver.put({"0.gpm.13": 99})
        answer = worker.poll()
    finally:
        worker.close()
    values = answer["devices"][0]["values"]
    assert values["fp32_active_percent"] == 10
    assert "fp16_active_percent" not in values, "it is not asked for again"
    assert "fp16_active_percent" in answer["unsupported"][FIRST]
    assert {"fp32_active_percent", "sm_active_percent"}.isdisjoint(answer["unsupported"][FIRST])
    assert "fp32_active_percent" in answer["unsupported"][SECOND], "this one knows no activity at all"


def test_nvlink_traffic_is_a_rate(driver: Driver, worker: Worker) -> None:
    driver.put({"0.field.138.4294967295": 1024, "0.field.139.4294967295": 1024})
    assert "nvlink_mib_s" not in worker.values()
    driver.put({"0.field.138.4294967295": 1024 * 1024 * 1024})
    assert worker.values()["nvlink_mib_s"] > 0
    driver.put({"0.field.138.4294967295": 0})
    assert "nvlink_mib_s" not in worker.values(), "the counter began anew"


def test_xid_errors_are_reported_once_with_their_device(driver: Driver, worker: Worker) -> None:
    driver.put({"xid.0": "0 31"})
    fresh = Worker(driver)
    try:
        fresh.poll()
        driver.put({"xid.1": "1 79"})
        found = wait_until(lambda: fresh.poll()["xids"], "the driver tells of the error")
        assert [(row["device"], row["code"]) for row in found] == [(SECOND, 79)]
        assert fresh.poll()["xids"] == []
    finally:
        fresh.close()


def test_devices_that_are_left_out_are_not_called(driver: Driver) -> None:
    log = driver.file.with_name("log")
    driver.put({"log": log})
    worker = Worker(driver, 0)
    try:
        answer = worker.poll()
    finally:
        worker.close()
    assert [row["uuid"] for row in answer["devices"]] == [SECOND]
    assert not [line for line in log.read_text().splitlines() if line.endswith(" 0")]
