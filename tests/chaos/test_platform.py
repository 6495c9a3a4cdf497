"""Any process of a whole platform may be killed with -9 or stopped: no job is lost or started twice.

Web, relay with beat, prefork workers and the bundled broker run as `allotment up` starts them, on SQLite and
on PostgreSQL, which checks the sums at every commit. Each fault is planted once and must meet one process.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from benchmarks.support.running import RunningPlatform, large_team, run_platform
from tests.chaos.commit_laws import assert_every_commit_kept_the_laws, commits_looked_at, watch_commits
from tests.fixtures.books import books
from tests.fixtures.wait import descendants, wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

POINTS: Final = (
    "submit.before_commit",
    "submit.after_commit",
    "cycle.before_commit",
    "cycle.after_commit",
    "execute.after_ensure",
    "execute.after_remove",
    "observe.before_apply",
    "relay.after_publish",
)
# The part that is killed while another process is stopped at a point.
DEATHS: Final = (
    ("broker", "cycle.before_commit"),
    ("relay", "execute.after_remove"),
    ("relay", "execute.after_ensure"),
    ("broker", "observe.before_apply"),
    ("web", "cycle.after_commit"),
    ("cycles", "cycle.before_commit"),
    ("worker", "execute.before_ensure"),
    ("broker", "relay.before_publish"),
)
_BOOKS: Final = """
    SELECT json_build_object(
        'used', (SELECT count(*) FROM quotas_ledgerentry WHERE used > 0),
        'granted', (SELECT count(*) FROM clusters_device WHERE cores_granted > 0 OR holders > 0),
        'held', (SELECT count(*) FROM scheduling_allocation WHERE released_at IS NULL),
        'attempts', (SELECT json_agg(DISTINCT attempt_number) FROM scheduling_job),
        'states', (SELECT json_object_agg(state, jobs)
            FROM (SELECT state, count(*) AS jobs FROM scheduling_job GROUP BY state) AS by_state))
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """A running platform, and access to its database where that is PostgreSQL."""

    running: RunningPlatform
    database: psycopg.Connection[Any] | None

    @property
    def faults(self) -> Path:
        """The folder of planted faults."""
        return Path(self.running.environment["ALLOTMENT_FAULTS"])

    def call(self, method: str, address: str, body: object = None, key: str = "") -> dict[str, Any]:
        """Call the API and return the answer; the call is repeated until there is one."""
        headers = {"Authorization": f"Bearer {self.running.token}"}
        if key:
            headers["Idempotency-Key"] = key
        url = f"{self.running.url}/api/v1/workspaces/bench/{address}"

        def answered() -> httpx.Response | None:
            try:
                answer = httpx.request(method, url, json=body, headers=headers, timeout=20)
            except httpx.TransportError:
                return None
            return None if answer.status_code >= 500 else answer

        answer = wait_until(answered, f"{method} {address} is answered", within_s=60)
        parsed: dict[str, Any] = answer.raise_for_status().json()
        return parsed

    def submit(self, name: str) -> None:
        """Submit a job of two tasks that runs for a second; a repeated request creates no second job."""
        role = {"name": "main", "replicas": 2, "image": "x", "resources": {"cpu": 1, "gpu": {"cards": 2}}}
        body = {"name": name, "kind": "batch", "roles": [role], "simulate": {"run_s": 10}}
        self.call("POST", "jobs", body, key=str(uuid.uuid4()))

    def plant(self, point: str, what: str) -> Path:
        """Plant a fault for the first process that reaches a point."""
        planted = self.faults / point
        planted.write_text(what, encoding="utf-8")
        return planted

    def assert_all_came_through(self, jobs: int) -> None:
        """Assert that `jobs` jobs succeeded at once, nothing is held and all sums were right."""
        whole = {"used": 0, "granted": 0, "held": 0, "attempts": [1], "states": {"succeeded": jobs}}
        wait_until(
            lambda: self._books() == whole, "all jobs are done, and nothing is held", within_s=90, every_s=0.2
        )
        if self.database is not None:
            assert_every_commit_kept_the_laws(self.database)
            assert commits_looked_at(self.database) > 0

    def _books(self) -> dict[str, Any]:
        if self.database is None:
            return books(self.running)
        rows = self.database.execute(_BOOKS).fetchone()
        assert rows is not None
        found: dict[str, Any] = rows[0]
        return found


@pytest.fixture(scope="module")
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    environment = {
        "ALLOTMENT_FAULTS": str(tmp_path_factory.mktemp("faults")),
        "ALLOTMENT_LEASE_S": "2",
    }
    world = large_team(nodes=2, cards=8, speed=10)
    if request.param == "sqlite":
        migrated = request.getfixturevalue("migrated_file")
        with run_platform(world=world, environment=environment, migrated=migrated) as running:
            yield Installed(running, None)
        return
    server = request.getfixturevalue("postgres_server")
    name = server.create_database(template=request.getfixturevalue("migrated_database"))
    environment["ALLOTMENT_DATABASE_URL"] = server.database_url(name)
    with (
        run_platform(world=world, environment=environment) as running,
        server.connect_database(name) as database,
    ):
        watch_commits(database)
        yield Installed(running, database)
    server.drop_database(name)


@pytest.mark.parametrize("installed", ["sqlite", "postgresql"], indirect=True)
def test_no_death_loses_a_job_or_leaves_anything_held(installed: Installed) -> None:
    for point in POINTS:
        planted = installed.plant(point, "kill")
        installed.submit(_named(point))
        wait_until(lambda fault=planted: not fault.exists(), f"{point} has killed a process", within_s=60)
    jobs = len(POINTS)
    installed.assert_all_came_through(jobs)

    if installed.database is None:
        return  # in the embedded mode a process stopped within a transaction blocks all others
    for part, point in DEATHS:
        planted = installed.plant(point, "stop")
        installed.submit(_named(f"{part}-{point}"))
        (held_up,) = wait_until(
            lambda: _stopped(installed.running), f"{point} has stopped a process", within_s=60
        )
        assert not planted.exists()
        _kill(installed.running, part)
        with suppress(ProcessLookupError):  # it was one of the worker's, which has died
            os.kill(held_up, signal.SIGCONT)
    jobs += len(DEATHS)
    installed.assert_all_came_through(jobs)

    broker = installed.running.process_ids()["broker"]
    os.kill(broker, signal.SIGSTOP)
    installed.submit("while-the-broker-stands-still")
    installed.call("GET", "jobs")
    os.kill(broker, signal.SIGCONT)
    installed.assert_all_came_through(jobs + 1)


def _kill(running: RunningPlatform, part: str) -> None:
    """Kill a part of the platform with -9, whose supervisor starts another."""
    victim = running.process_ids()[part]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: running.process_ids().get(part, victim) != victim, f"another {part}", within_s=60)


def _named(text: str) -> str:
    return text.replace(".", "-").replace("_", "-")


def _stopped(running: RunningPlatform) -> list[int]:
    """Return the processes of the platform that are stopped."""
    return [pid for pid in descendants(running.pid) if _state(pid) == "T"]


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""  # it has ended meanwhile
    return text.rpartition(")")[2].split()[0]
