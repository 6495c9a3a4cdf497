"""A process that hangs in NVML is abandoned; the devices that answer are polled on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from telemetry.agent.nvml import process as module
from telemetry.agent.nvml.process import ABANDONED_MOST, NvmlProcess, Outcome, PollState
from tests.fixtures.nvml_driver import Driver
from tests.fixtures.wait import wait_until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"

DEADLINE_S = 30.0


@dataclass
class Clock:
    """Time goes on by itself and can be put forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvml(driver: Driver, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlProcess]:
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    made = NvmlProcess(DEADLINE_S, DEADLINE_S, clock)
    yield made
    made.close()


def uuids(outcome: Outcome) -> set[str]:
    assert outcome.state is PollState.OK, outcome
    assert outcome.answer is not None
    return {row["uuid"] for row in outcome.answer["devices"]}


def poll_until_hung(nvml: NvmlProcess, driver: Driver, clock: Clock, call: str) -> Outcome:
    """Poll until a call is under way, and let the deadline pass then: no real time decides."""
    log = driver.file.with_name("log")
    driver.put({"log": log})
    outcome = nvml.poll(0.01)
    wait_until(lambda: log.exists() and call in log.read_text(), f"the call {call}")
    assert outcome.state is PollState.PENDING
    clock.ahead += DEADLINE_S
    driver.put({"log": None})
    log.unlink()
    return nvml.poll(0.01)


def test_a_device_that_hangs_is_left_out_and_the_others_are_polled(
    nvml: NvmlProcess, driver: Driver, clock: Clock
) -> None:
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}
    driver.put({"hang.nvmlDeviceGetPowerUsage.0": 1})
    outcome = poll_until_hung(nvml, driver, clock, "nvmlDeviceGetPowerUsage 0")
    assert (outcome.state, outcome.device, outcome.call) == (PollState.HUNG, FIRST, "nvmlDeviceGetPowerUsage")
    assert uuids(nvml.poll(20)) == {SECOND}
    driver.put({"hang.nvmlDeviceGetPowerUsage.0": None})
    assert uuids(nvml.poll(20)) == {SECOND}, "it is tried again after a while"
    clock.ahead += 61
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}


def test_a_device_that_hangs_again_is_left_out_for_longer(
    nvml: NvmlProcess, driver: Driver, clock: Clock
) -> None:
    driver.put({"hang.nvmlDeviceGetUUID.1": 1})
    assert poll_until_hung(nvml, driver, clock, "nvmlDeviceGetUUID 1").device == "#1"
    assert uuids(nvml.poll(20)) == {FIRST}
    clock.ahead += 61
    assert poll_until_hung(nvml, driver, clock, "nvmlDeviceGetUUID 1").state is PollState.HUNG
    assert uuids(nvml.poll(20)) == {FIRST}
    clock.ahead += 61
    starts = nvml.starts
    assert uuids(nvml.poll(20)) == {FIRST}
    assert nvml.starts == starts


def test_an_answer_that_takes_long_is_waited_for_without_blocking(nvml: NvmlProcess, driver: Driver) -> None:
    driver.put({"hang.nvmlInitWithFlags": 1})
    assert nvml.poll(0.05).state is PollState.PENDING
    driver.put({"hang.nvmlInitWithFlags": None})
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}
    assert nvml.starts == 1


def test_a_driver_that_hangs_as_a_whole_is_tried_again_with_pauses(
    nvml: NvmlProcess, driver: Driver, clock: Clock
) -> None:
    driver.put({"hang.nvmlInitWithFlags": 1})
    outcome = poll_until_hung(nvml, driver, clock, "nvmlInitWithFlags")
    assert (outcome.state, outcome.device, outcome.call) == (PollState.HUNG, "", "nvmlInit")
    assert nvml.poll(20).state is PollState.WAITING
    clock.ahead += 1.1
    driver.put({"hang.nvmlInitWithFlags": None})
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}


def test_a_lost_device_is_looked_for_again(nvml: NvmlProcess, driver: Driver, clock: Clock) -> None:
    nvml.poll(20)
    driver.put({"error.*.1": 15})
    assert uuids(nvml.poll(20)) == {FIRST}
    driver.put({"error.*.1": None})
    assert uuids(nvml.poll(20)) == {FIRST}
    clock.ahead += 61
    outcome = nvml.poll(20)
    assert uuids(outcome) == {FIRST, SECOND}
    assert outcome.answer and outcome.answer["inventory"], "what was enumerated anew is told"


def test_a_replaced_driver_means_a_new_process(nvml: NvmlProcess, driver: Driver, clock: Clock) -> None:
    nvml.poll(20)
    driver.put({"error.nvmlDeviceGetUUID": None, "error.*.0": 18})
    assert nvml.poll(20).state is PollState.MISMATCH
    driver.put({"error.*.0": None})
    clock.ahead += 1.1
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}
    assert nvml.starts == 2


@pytest.mark.parametrize("code", ["pass", "print('no JSON', flush=True); input(); input()"])
def test_a_process_that_dies_or_babbles_is_replaced(nvml: NvmlProcess, clock: Clock, code: str) -> None:
    nvml.command = (sys.executable, "-c", code)
    assert nvml.poll(20).state is PollState.EXITED
    assert nvml.poll(20).state is PollState.WAITING
    nvml.command = module.COMMAND
    clock.ahead += 1.1
    assert uuids(nvml.poll(20)) == {FIRST, SECOND}


def test_processes_that_cannot_be_killed_are_left_behind_and_few(
    nvml: NvmlProcess, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.command = (sys.executable, "-c", "import time; time.sleep(600)")
    nvml.start_deadline_s = 0.05
    kept: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(module.subprocess.Popen, "kill", lambda process: kept.append(process))
    try:
        for _ in range(ABANDONED_MOST + 3):
            clock.ahead += 120
            nvml.poll(20)
        assert (nvml.starts, nvml.abandoned) == (ABANDONED_MOST, ABANDONED_MOST)
    finally:
        for each in kept:
            os.kill(each.pid, 9)
            each.wait()
    clock.ahead += 120
    nvml.command, nvml.start_deadline_s = module.COMMAND, 20
    monkeypatch.undo()
    assert nvml.poll(20).state is not PollState.WAITING
