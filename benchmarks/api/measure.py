"""Starts PostgreSQL and two web processes, fills the tables, asks, and judges by the 95th percentile.

The times are the server's own (`Server-Timing`, see `benchmarks.api.served`). Two clients ask at once, one
for each process, each kind by itself, so that a slow kind cannot hide behind the fast ones.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlsplit

from benchmarks.api.requests import KINDS, Ask, Team
from benchmarks.postgres import running_postgres
from benchmarks.report import Report, Row, limits, show
from benchmarks.running import free_port, wait_ready

_SETTINGS: Final = {"shared_buffers": "512MB", "work_mem": "16MB", "random_page_cost": "1.1"}
_WARM: Final = 10


def main(arguments: list[str]) -> int:
    """The command: `python -m benchmarks api [--scale SHARE] [--json FILE]`."""
    parser = argparse.ArgumentParser(prog="benchmarks api")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, for a quick try: 0.02")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    return show(run(options.scale), options.json)


def run(scale: float = 1.0) -> Report:
    """Measure once, with `scale` times the rows."""
    bounds = limits("api")
    size = {name: max(int(bounds[name] * scale), 5) for name in ("tenants", "queues", "jobs")}
    begun = time.monotonic()
    with running_postgres(_SETTINGS) as server, TemporaryDirectory(prefix="allotment-bench-") as home:
        with server.connect() as connection:
            connection.execute("CREATE DATABASE allotment")
        environment = _environment(server.url("allotment"), home)
        world = _prepare(environment, size)
        web = {**environment, "ALLOTMENT_DATABASE_ROLE": "allotment_web", "ALLOTMENT_DATABASE_POOL": "8"}
        with _web(web, bounds["processes"]) as netloc:
            spent = {kind: _kind(netloc, kind, world["teams"], bounds) for kind in KINDS}
    return Report(
        name="api",
        size={**size, "requests": bounds["requests"], "processes": bounds["processes"]},
        rows=[_row(kind, times, bounds) for kind, times in spent.items()],
        seconds=time.monotonic() - begun,
        rate=0.0,
        latencies_s=[ms / 1000 for times in spent.values() for ms in times],
    )


def _row(kind: str, times: list[float], bounds: Mapping[str, Any]) -> Row:
    ordered = sorted(times)
    p95, p50 = ordered[int(0.95 * len(ordered))], ordered[len(ordered) // 2]
    limit = bounds["submit_p95_ms" if kind == "submit" else "read_p95_ms"]
    return Row(f"{kind}: p95, ms (median {p50:.1f})", p95, limit)


def _environment(url: str, home: str) -> dict[str, str]:
    return {
        **os.environ,
        "ALLOTMENT_HOME": home,
        "ALLOTMENT_DATABASE_URL": url,
        "ALLOTMENT_BROKER_URL": "memory://",  # a request never talks to the broker
        "ALLOTMENT_DEMO": "off",
        "ALLOTMENT_RATE_READS": "0",
        "ALLOTMENT_RATE_WRITES": "0",
        "ALLOTMENT_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
    }


def _prepare(environment: dict[str, str], size: Mapping[str, int]) -> dict[str, Any]:
    migrate = [sys.executable, "-m", "allotment.cli", "migrate", "--no-input", "--verbosity", "0"]
    subprocess.run(migrate, env=environment, check=True)
    fill = [sys.executable, "-m", "benchmarks.api.world", *(str(number) for number in size.values())]
    made = subprocess.run(fill, env=environment, check=True, stdout=subprocess.PIPE)
    world: dict[str, Any] = json.loads(made.stdout)
    return world


@contextmanager
def _web(environment: dict[str, str], processes: int) -> Iterator[str]:
    """Run the web server as the platform does, with that many processes; yields host and port."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "benchmarks.api.served:application"),
        *("--port", str(port), "--workers", str(processes), "--lifespan", "off", "--no-access-log"),
        *("--log-level", "warning"),
    ]
    log_file = Path(environment["ALLOTMENT_HOME"]) / "web.log"
    with log_file.open("wb") as log:
        web = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_ready(f"http://127.0.0.1:{port}/livez", web, log_file)
        yield f"127.0.0.1:{port}"
    finally:
        web.terminate()
        web.wait(30)


def _kind(netloc: str, kind: str, teams: list[Team], bounds: Mapping[str, Any]) -> list[float]:
    """The milliseconds of each answer of one kind, from as many clients as there are processes."""
    clients = bounds["processes"]
    with ThreadPoolExecutor(clients) as pool:
        parts = pool.map(
            lambda number: _client(netloc, kind, teams, bounds["requests"] // clients, number), range(clients)
        )
        return [ms for part in parts for ms in part]


def _client(netloc: str, kind: str, teams: list[Team], count: int, seed: int) -> list[float]:
    draw, times = random.Random(f"{kind} {seed}"), []
    connection = http.client.HTTPConnection(netloc, timeout=60)
    while len(times) < count + _WARM:
        team = draw.choices(teams, (6, 3, 1))[0]
        ask = KINDS[kind](team, draw)
        ms, body = _ask(connection, team, ask)
        times.append(ms)
        if ask.follow and body["next"] and draw.random() < 0.5:
            mark = "&" if "?" in ask.path else "?"
            times.append(_ask(connection, team, Ask(f"{ask.path}{mark}cursor={body['next']}"))[0])
    connection.close()
    return times[_WARM:]


def _ask(connection: http.client.HTTPConnection, team: Team, ask: Ask) -> tuple[float, Any]:
    headers = {"Authorization": f"Bearer {team['token']}", "Content-Type": "application/json"}
    path = quote(ask.path, safe="/?&=%<>:-,")
    connection.request("POST" if ask.body else "GET", path, ask.body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 202):
        raise RuntimeError(f"{urlsplit(path).path} was answered {answer.status}: {text[:300]!r}")
    return float(answer.headers["Server-Timing"].partition("dur=")[2]), json.loads(text)
