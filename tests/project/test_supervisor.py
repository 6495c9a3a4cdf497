"""The supervisor over shell scripts: restarts, order of stopping, and no process left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import wait_for_end
from tests.fixtures.wait import alive, descendants, kill_hard, wait_until

FAKE = Path(__file__).with_name("fake_supervisor.py")
# Ends on SIGTERM, after writing its name: the order of the names is the order of the ends.
POLITE = "trap 'echo {0} >> order; exit 0' TERM; echo {0} >> started; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; echo $$ > stubborn.pid; while :; do sleep 0.05; done"


class Run:
    """A supervisor under test with its folder."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder = folder
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        self._out = (folder / "out").open("wb")
        self._err = (folder / "err").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, str(FAKE), str(folder)], cwd=folder, stdout=self._out, stderr=self._err
        )
        self.below: set[int] = set()

    def text(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def says(self, words: str) -> None:
        wait_until(lambda: words in self.text("out"), f"it says {words!r}; it said {self.text('out')!r}")

    def notes(self, count: int, name: str = "started") -> list[str]:
        def enough() -> list[str]:
            lines = self.text(name).split()
            return lines if len(lines) >= count else []

        return wait_until(enough, f"{count} notes in {name}")

    def remember(self) -> set[int]:
        self.below |= set(descendants(self.process.pid))
        return self.below

    def ends(self, within_s: float = 20) -> int:
        return wait_for_end(self.process, within_s=within_s)

    def all_gone(self) -> bool:
        return not any(alive(pid) for pid in self.below)

    def close(self) -> None:
        kill_hard([self.process.pid, *self.remember()])
        self.process.wait()
        self._out.close()
        self._err.close()


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def run(*, ready: bool = True, **plan: Any) -> Run:
        if ready:
            (tmp_path / "ready").touch()
        runs.append(Run(tmp_path, plan))
        return runs[-1]

    yield run
    for each in runs:
        each.close()


def service(name: str, script: str = POLITE, **more: Any) -> dict[str, Any]:
    return {"name": name, "script": script.replace("{0}", name), **more}


def test_a_crashed_child_is_started_again_and_the_console_says_so(start: Start) -> None:
    run = start(services=[service("web"), service("worker", "echo $$ >> runs; sleep 0.2; exit 3")])
    assert len(set(run.notes(3, "runs"))) == 3
    run.says("worker ended with status 3; starting it again in")
    run.process.send_signal(signal.SIGTERM)
    assert run.ends() == 0


def test_a_killed_child_is_named_with_its_signal(start: Start) -> None:
    run = start(services=[service("web", "echo $$ >> runs; while :; do sleep 0.05; done")])
    os.kill(int(run.notes(1, "runs")[0]), signal.SIGKILL)
    run.says("web was killed by SIGKILL; starting it again")
    first, second = run.notes(2, "runs")
    assert first != second


def test_the_delay_grows_and_has_a_limit(start: Start) -> None:
    run = start(first_delay_s=0.1, services=[service("web", "exit 1")])
    run.says("again in 0.4 s")
    assert re.findall(r"again in (\S+) s", run.text("out"))[:3] == ["0.1", "0.2", "0.4"]


def test_crashing_before_ever_being_ready_ends_the_start_with_the_last_words(start: Start) -> None:
    run = start(ready=False, services=[service("web", "echo no such table; exit 3"), service("beat")])
    run.notes(1)
    run.remember()
    assert run.ends() == 1
    assert run.text("err") == "web ended with status 3, 5 times\n"
    assert "web | no such table" in run.text("out")
    wait_until(run.all_gone, "the other child is gone")


def test_services_stop_before_the_broker(start: Start, tmp_path: Path) -> None:
    (tmp_path / "broker-up").touch()
    run = start(broker=service("broker"), services=[service("web"), service("worker")])
    run.notes(3)
    run.remember()
    run.process.send_signal(signal.SIGINT)
    assert run.ends() == 0
    order = run.text("order").split()
    assert sorted(order) == ["broker", "web", "worker"]
    assert order[-1] == "broker"
    assert run.all_gone()


def test_a_stubborn_child_is_killed_after_its_time(start: Start) -> None:
    run = start(services=[service("worker", STUBBORN, stop_s=0.3)])
    run.notes(1, "stubborn.pid")
    run.remember()
    run.process.send_signal(signal.SIGTERM)
    assert run.ends() == 0
    assert "worker did not stop in time and was killed" in run.text("out")
    assert run.all_gone()


def test_a_second_request_ends_the_patience(start: Start) -> None:
    run = start(services=[service("worker", STUBBORN, stop_s=600)])
    run.notes(1, "stubborn.pid")
    run.process.send_signal(signal.SIGINT)
    run.says("Stopping")
    run.process.send_signal(signal.SIGINT)
    assert run.ends() == 0


def test_grandchildren_end_with_an_orderly_stop(start: Start) -> None:
    run = start(services=[service("web", "sleep 600 & echo $! >> started; wait")])
    grandchild = int(run.notes(1)[0])
    run.process.send_signal(signal.SIGTERM)
    assert run.ends() == 0
    wait_until(lambda: not alive(grandchild), "the grandchild is gone")


FORKING = """
import os, time
from allotment.processes.kill_on_parent_exit import die_with_parent
parent = os.getpid()
for _ in range(3):
    if os.fork() == 0:
        die_with_parent(parent)
        open("started", "a").write(f"{os.getpid()}\\n")
        time.sleep(600)
time.sleep(600)
"""


def test_kill_9_of_the_supervisor_leaves_no_process(start: Start, tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORKING, encoding="utf-8")
    (tmp_path / "broker-up").touch()
    run = start(
        broker=service("broker", "echo b >> started; exec sleep 600"),
        services=[service("worker", f"exec {sys.executable} forking.py"), service("web", STUBBORN)],
    )
    run.notes(4)
    run.notes(1, "stubborn.pid")
    assert len(run.remember()) >= 6
    run.process.kill()
    run.process.wait()
    wait_until(run.all_gone, "every process is gone", within_s=5)


def test_steps_run_in_order_before_the_services(start: Start) -> None:
    run = start(
        steps=[service("migrate", "sleep 0.2; echo 1 >> started"), service("seed", "echo 2 >> started")],
        services=[service("web")],
    )
    assert run.notes(3) == ["1", "2", "web"]
    run.says("READY")


def test_a_failed_step_ends_the_start_with_its_last_words(start: Start) -> None:
    run = start(steps=[service("migrate", "echo disk full; exit 1")], services=[service("web")])
    assert run.ends() == 1
    assert run.text("err") == "migrate ended with status 1\n"
    assert "migrate | disk full" in run.text("out")
    assert run.text("started") == ""


def test_a_stop_during_a_step_is_no_failure(start: Start) -> None:
    run = start(steps=[service("migrate", "echo 1 >> started; exec sleep 600")], services=[service("web")])
    run.notes(1)
    run.remember()
    run.process.send_signal(signal.SIGINT)
    assert run.ends() == 0
    assert run.text("started") == "1\n"
    assert run.all_gone()


def test_a_broker_that_ends_at_once_ends_the_start(start: Start) -> None:
    run = start(broker=service("broker", "echo bad option; exit 1"), services=[service("web")])
    assert run.ends() == 1
    assert run.text("err") == "the broker did not start\n"
    assert "broker | bad option" in run.text("out")


def test_losing_and_regaining_readiness_is_logged_once(start: Start, tmp_path: Path) -> None:
    run = start(services=[service("web")])
    run.says("READY")
    (tmp_path / "ready").unlink()
    run.says("Not working: demo: is away")
    (tmp_path / "ready").touch()
    run.says("Working again.")
    run.process.send_signal(signal.SIGTERM)
    assert run.ends() == 0
    assert run.text("out").count("Not working") == run.text("out").count("READY") == 1
