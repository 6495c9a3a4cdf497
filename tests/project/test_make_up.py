"""The whole platform from one command: it becomes ready, stops, continues, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.support.ports import free_port
from tests.fixtures.programs import wait_for_end
from tests.fixtures.wait import alive, descendants, kill_hard, wait_until

READY_WITHIN_S = 90


class Platform:
    """`allotment up` in a home of its own, as started by the make target."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.output = home.parent / "console.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self.seen: set[int] = set()

    def start(self) -> None:
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("allotment")), "up"],
                stdout=out, stderr=subprocess.STDOUT, cwd=self.home.parent,
                env={
                    "PATH": os.environ["PATH"], "HOME": str(self.home.parent), "PORT": str(self.port),
                    "ALLOTMENT_HOME": str(self.home),
                },
            )  # fmt: skip
        wait_until(self._ready, "the platform is ready", within_s=READY_WITHIN_S, every_s=0.25)
        wait_until(lambda: "is running at" in self.text(), "the banner is printed")
        self.seen |= set(descendants(self.process.pid))

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with status {self.process.returncode}:\n{self.text()}")
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz/platform", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def end(self, signum: int, within_s: float = 60) -> int:
        assert self.process is not None
        self.seen |= set(descendants(self.process.pid))
        self.process.send_signal(signum)
        return wait_for_end(self.process, within_s=within_s)

    def survivors(self) -> list[str]:
        return [
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            for pid in self.seen
            if alive(pid)
        ]

    def close(self) -> None:
        if self.process is not None:
            kill_hard([*descendants(self.process.pid), self.process.pid, *self.seen])
            self.process.wait()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    platform = Platform(tmp_path / "home")
    yield platform
    platform.close()


@pytest.mark.server
@pytest.mark.timeout(420)
def test_start_stop_continue_and_kill(platform: Platform) -> None:
    platform.start()
    account = platform.home / "first-sign-in.json"
    first = json.loads(account.read_text(encoding="utf-8"))
    assert stat.S_IMODE(account.stat().st_mode) == 0o600
    assert first["password"] in platform.text()
    assert len(platform.seen) >= 8, "broker, web, relay, and two workers with their five processes"

    assert platform.end(signal.SIGINT) == 0
    assert platform.survivors() == []

    # The same data: the account is not created again, and its password is still the one to use.
    platform.start()
    assert json.loads(account.read_text(encoding="utf-8")) == first
    assert first["password"] in platform.text()

    assert platform.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not platform.survivors(), "every process is gone", within_s=10)

    # A start after kill -9 needs no cleaning up.
    platform.start()
    assert platform.end(signal.SIGTERM) == 0
    assert platform.survivors() == []
