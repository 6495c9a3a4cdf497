"""Starting the embedded platform for a measurement, and ending all its processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.support.deadlines import DEADLINE_FACTOR
from benchmarks.support.ports import free_port
from benchmarks.support.postgres import PostgresServer, running_postgres
from benchmarks.support.processor import child_processes, seconds_of_family

DATABASE: Final = "allotment"
_POSTGRES: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB", "random_page_cost": "1.1"}
_READY_S = 90 * DEADLINE_FACTOR
_STOP_S = 30


@dataclass(frozen=True, slots=True)
class RunningPlatform:
    """A platform at `url`; `token` is an editor's access key, `environment` its variables, `pid` that of its
    supervisor.
    """

    url: str
    token: str
    home: Path
    environment: dict[str, str]
    pid: int

    def process_ids(self) -> dict[str, int]:
        """Return the running processes by name: web, cycles, worker, relay and broker, each with its id."""
        named = [(_part(pid), pid) for pid in child_processes(self.pid)]
        return {part: pid for part, pid in named if part}

    def processor_seconds(self) -> dict[str, float]:
        """Return the processor seconds so far of each of its processes, with their children."""
        return {part: seconds_of_family(pid) for part, pid in self.process_ids().items()}


def _part(pid: int) -> str:
    """Return the part of the platform that a process is, empty if it has ended.

    Celery sets its own process titles.
    """
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # the process ended before its file was opened or read
        title = ""
    if not title:
        return ""
    words = {"uvicorn": "web", "relay": "relay", "cycles@": "cycles", "celery": "worker"}
    return next((part for word, part in words.items() if word in title), "broker")


def large_team(*, nodes: int, cards: int, speed: float = 1.0, demo_speed: float = 0) -> tuple[object, ...]:
    """Return the world of one team that may use a whole simulated cluster.

    With `demo_speed` the cluster and the teams of the demo are added, without its users and history.
    """
    return "benchmarks.support.world", nodes, cards, speed, demo_speed


@contextmanager
def run_platform(
    *,
    world: Sequence[object],
    environment: Mapping[str, str] | None = None,
    migrated: Path | None = None,
) -> Iterator[RunningPlatform]:
    """Run `allotment up` in a temporary home without demo users, with the data that a module creates.

    `world`: the module and its arguments; it prints `{"token": …}`. `environment` is added to the platform's
    own. `migrated`: an SQLite file with all tables, which is copied to the home. Raises: RuntimeError if it
    is not ready within `_READY_S` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        port = free_port()
        variables = {
            **os.environ,
            "ALLOTMENT_HOME": folder,
            "ALLOTMENT_DEMO": "off",
            "ALLOTMENT_RATE_READS": "0",  # no rate limit, because the platform is measured, not its limits
            "ALLOTMENT_RATE_WRITES": "0",
            "PORT": str(port),
            "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
            **(environment or {}),
        }
        if migrated is not None:
            shutil.copyfile(migrated, Path(folder) / "allotment.sqlite3")
        token = _prepare(variables, world)
        with (Path(folder) / "up.log").open("wb") as log:
            up = subprocess.Popen(
                [sys.executable, "-m", "allotment.cli", "up"], env=variables, stdout=log, stderr=log
            )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_ready(f"{url}/readyz/platform", up, Path(folder) / "up.log")
            yield RunningPlatform(url, token, Path(folder), variables, up.pid)
        finally:
            up.send_signal(signal.SIGINT)
            try:
                up.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                up.kill()
                up.wait()


@contextmanager
def platform_on_postgres(*, world: Sequence[object]) -> Iterator[tuple[RunningPlatform, PostgresServer]]:
    """Run `run_platform` with its own PostgreSQL server, of the size of a small installation's."""
    with running_postgres(_POSTGRES) as server:
        with server.connect_database() as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        environment = {
            "ALLOTMENT_DATABASE_URL": server.database_url(DATABASE),
            "ALLOTMENT_LOG_LEVEL": "WARNING",
        }
        with run_platform(world=world, environment=environment) as running:
            yield running, server


def _prepare(environment: dict[str, str], world: Sequence[object]) -> str:
    command = [sys.executable, "-m", *map(str, world)]
    made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    token: str = json.loads(made.stdout)["token"]
    return token


def wait_ready(address: str, up: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the address responds with 200. Raises: RuntimeError if it does not, or the process ends."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if up.poll() is not None:
            raise RuntimeError(f"the platform ended with status {up.returncode}:\n{log.read_text()}")
        if _answers(address):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the platform was not ready within {_READY_S} s")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False  # not listening, or not ready yet
