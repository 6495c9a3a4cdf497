"""The measured installation: PostgreSQL with large tables, the bundled broker, and web processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from allotment.supervisor.broker import broker_program
from allotment.supervisor.child import spawn_process
from benchmarks.support.ports import free_port
from benchmarks.support.postgres import PostgresServer, running_postgres
from benchmarks.support.running import wait_ready

Report = Callable[[str], None]
DATABASE: Final = "allotment"
_SETTINGS: Final = {
    "shared_buffers": "512MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
    "random_page_cost": "1.1",
}
_UNREACHED: Final = "1000000000"


class WrongSize(RuntimeError):
    """The folder contains an installation of another size."""


@dataclass(frozen=True, slots=True)
class BenchInstallation:
    """A running installation. `ports` and `web` are the ports and process ids of the web processes.

    `server` is their PostgreSQL with the database `DATABASE`, and `database` the id of its first process;
    `world` is the output of the module that created it. `environment` is that of all processes of the
    platform.
    """

    ports: tuple[int, ...]
    web: tuple[int, ...]
    server: PostgresServer
    database: int
    world: Mapping[str, Any]
    environment: Mapping[str, str]


@contextmanager
def run_installation(
    size: Mapping[str, int], processes: int, report: Report, folder: Path | None = None, *, world: str
) -> Iterator[BenchInstallation]:
    """Create the installation, or reuse the one in `folder`, and run it within the block; `report` gets
    progress lines.

    `world`: the module that fills it. Its arguments are the numbers of `size`, and its last line is JSON.

    Raises: WrongSize; MissingProgram; RuntimeError when a process does not start.
    """
    with ExitStack() as stack:
        report("starting PostgreSQL")
        server = stack.enter_context(running_postgres(_SETTINGS, folder))
        home = Path(stack.enter_context(TemporaryDirectory(prefix="allotment-bench-")))
        environment = _environment(server, home)
        made = _world(server, environment, size, report, folder, world)
        report("starting broker and web processes")
        _broker(stack, home)
        web = [_web(stack, environment, number) for number in range(processes)]
        ports = tuple(_port(one, home / f"web-{number}.log") for number, one in enumerate(web))
        yield BenchInstallation(
            ports, tuple(one.process.pid for one in web), server, server.process.pid, made, environment
        )


def _environment(server: PostgresServer, home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "ALLOTMENT_HOME": str(home),
        "ALLOTMENT_DATABASE_URL": server.database_url(DATABASE),
        "ALLOTMENT_DEMO": "off",
        # Rate limits are counted as usual but never reached, because the platform is measured, not its
        # limits.
        "ALLOTMENT_RATE_READS": _UNREACHED,
        "ALLOTMENT_RATE_WRITES": _UNREACHED,
        "ALLOTMENT_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
    }


def _world(
    server: PostgresServer,
    environment: dict[str, str],
    size: Mapping[str, int],
    report: Report,
    folder: Path | None,
    module: str,
) -> Mapping[str, Any]:
    note = folder / "world.json" if folder else None
    known = json.loads(note.read_text(encoding="utf-8")) if note and note.exists() else None
    if known and known["size"] != dict(size):
        raise WrongSize(f"{folder} holds an installation of {known['size']}; choose another folder")
    if not known:
        with server.connect_database() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            connection.execute(f"CREATE DATABASE {DATABASE}")
    report("bringing the tables up to date")
    _run(environment, "allotment.cli", "migrate", "--no-input", "--verbosity", "0")
    if known:
        return dict(known["world"])
    world: dict[str, Any] = json.loads(_filled(environment, size, report, module))
    if note:
        note.write_text(json.dumps({"size": dict(size), "world": world}), encoding="utf-8")
    return world


def _filled(environment: dict[str, str], size: Mapping[str, int], report: Report, module: str) -> str:
    """Run the module of the world and report its output; return its last line."""
    command = [sys.executable, "-m", module, *map(str, size.values())]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as filling:
        line = ""
        for line in filling.stdout or ():
            if not line.startswith("{"):
                report(line.strip())
    if filling.returncode:
        raise subprocess.CalledProcessError(filling.returncode, command)
    return line


def _run(environment: dict[str, str], module: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", module, *words], env=environment, check=True)


def _broker(stack: ExitStack, home: Path) -> None:
    for folder in ("run", "broker"):
        (home / folder).mkdir(exist_ok=True)
    _until_end(stack, spawn_process(broker_program(home), home / "broker.log"))


@dataclass(frozen=True, slots=True)
class _Web:
    port: int
    process: subprocess.Popen[bytes]


def _web(stack: ExitStack, environment: Mapping[str, str], number: int) -> _Web:
    """Start a web process as the platform does, on its own port; each serves its part of the clients."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "benchmarks.api.served:serve_application"),
        *("--port", str(port), "--lifespan", "off", "--no-access-log", "--log-level", "warning"),
    ]
    bound = {**environment, "ALLOTMENT_DATABASE_ROLE": "allotment_web", "ALLOTMENT_DATABASE_POOL": "8"}
    with (Path(environment["ALLOTMENT_HOME"]) / f"web-{number}.log").open("wb") as log:
        process = subprocess.Popen(command, env=bound, stdout=log, stderr=log)
    _until_end(stack, process)
    return _Web(port, process)


def _port(web: _Web, log: Path) -> int:
    """Return the port of a web process once it responds."""
    wait_ready(f"http://127.0.0.1:{web.port}/livez", web.process, log)
    return web.port


def _until_end(stack: ExitStack, process: subprocess.Popen[bytes]) -> None:
    def end_process() -> None:
        process.terminate()
        process.wait(30)

    stack.callback(end_process)
