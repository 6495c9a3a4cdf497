"""A process killed with -9 at any marked point loses nothing and takes nothing twice.

A whole platform runs: web, relay, beat, a prefork worker, the bundled broker; on SQLite and on
PostgreSQL. Each fault point is planted once and must kill exactly one process.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running import Running, large_team, platform
from tests.fixtures.books import books
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server

POINTS = (
    "cycle.before_commit",
    "cycle.after_commit",
    "execute.after_ensure",
    "execute.after_remove",
    "observe.before_apply",
    "relay.after_publish",
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    environment = {
        "ALLOTMENT_FAULTS": str(tmp_path_factory.mktemp("faults")),
        "ALLOTMENT_LEASE_S": "2",
    }
    server = name = None
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        name = server.create_database()
        environment["ALLOTMENT_DATABASE_URL"] = server.url(name)
    with platform(world=large_team(nodes=2, cards=8, speed=10), environment=environment) as it:
        yield it
    if server is not None:
        server.drop_database(name)


def call(running: Running, address: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/api/v1/workspaces/bench/{address}", data, headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        parsed: dict[str, Any] = json.loads(answer.read())
        return parsed


def submit(running: Running, name: str) -> None:
    role = {"name": "main", "replicas": 2, "image": "x", "resources": {"cpu": 1, "gpu": {"cards": 2}}}
    call(running, "jobs", {"name": name, "kind": "batch", "roles": [role], "simulate": {"run_s": 10}})


@pytest.mark.timeout(240)
def test_no_death_loses_a_job_or_leaves_anything_held(running: Running) -> None:
    faults = Path(running.environment["ALLOTMENT_FAULTS"])
    for point in POINTS:
        (faults / point).touch()
        submit(running, point.replace(".", "-").replace("_", "-"))
        wait_until(
            lambda fault=faults / point: not fault.exists(), f"{point} has killed a process", within_s=60
        )
    jobs = len(POINTS)

    wait_until(
        lambda: len(call(running, f"jobs?state=succeeded&limit={jobs}")["items"]) == jobs,
        f"all {jobs} jobs have succeeded",
        within_s=90,
    )
    wait_until(lambda: books(running)["held"] == 0, "every hold has been released", within_s=30)
    final = books(running)
    assert (final["used"], final["granted"], final["attempts"]) == (0, 0, [1])
