"""A rolling upgrade under load: the previous version runs on the new schema, and is replaced part by part.

The previous version is a commit of this repository, run from its own files with the packages of this one.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from allotment.supervisor.programs import embedded_plan
from benchmarks.support.ports import free_port
from tests.fixtures.need import need
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import run_to_end, wait_for_end
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import descendants, kill_hard, wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]
ROOT: Final = Path(__file__).resolve().parents[2]
BEFORE: Final = "b33c56342b1a88570b79b3c3d0a1c0f0a45a0e5b"
"""The version that is upgraded from: a commit, moved with each release."""
LONGEST_WAIT_S: Final = 10.0
_PAUSE_S: Final = 0.2
_APART: Final = {
    "relay": ("allotment.cli", "relay"),
    "beat": ("celery", "-A", "allotment", "beat"),
}
"""The commands of the parts, as an installation on several machines starts them."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of the previous version."""
    packed = run_to_end(
        ["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=False, within_s=60
    )
    if packed.returncode:
        need(f"commit {BEFORE[:7]}", "git fetch --unshallow")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@dataclass
class Installation:
    """Processes of two versions that share one database and one broker."""

    home: Path
    variables: Mapping[str, str]
    before: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def environment(self, version: str) -> dict[str, str]:
        """Return the environment of a process of `before` or of `now`."""
        folder = self.before if version == "before" else ROOT
        return {**os.environ, **self.variables, "PYTHONPATH": f"{folder}:{folder / 'platform'}"}

    def run(self, version: str, *words: str) -> str:
        """Run a command to its end; returns its output."""
        folder = self.before if version == "before" else ROOT
        done = run_to_end(
            [sys.executable, *words],
            env=self.environment(version), cwd=folder, capture_output=True, text=True, within_s=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, version: str, part: str) -> None:
        """Start a part, as `allotment up` does, beside that of the other version."""
        port = self.ports.setdefault(version, free_port())
        services = {one.name: list(one.command) for one in embedded_plan(self.home, port).services}
        services |= {name: [sys.executable, "-m", *words] for name, words in _APART.items()}
        named = [word.replace(f"{part}@", f"{part}-{version}@") for word in services[part]]
        with self.log(version, part).open("wb") as log:
            self.running[f"{part}-{version}"] = subprocess.Popen(
                named, env=self.environment(version), cwd=self.home, stdout=log, stderr=log
            )

    def stop(self, part: str) -> None:
        """Stop a part of the previous version, and let it finish its current work."""
        process = self.running.pop(f"{part}-before")
        assert process.poll() is None, self.log("before", part).read_text(encoding="utf-8")
        process.send_signal(signal.SIGTERM)
        try:
            wait_for_end(process, within_s=20)
        except subprocess.TimeoutExpired:
            kill_hard([*descendants(process.pid), process.pid])

    def log(self, version: str, part: str) -> Path:
        """Return the path of a part's log."""
        return self.home / f"{part}-{version}.log"

    def wait_ready(self, version: str, part: str) -> None:
        """Wait until a part does its work."""
        if part == "web":
            address = f"http://127.0.0.1:{self.ports[version]}/livez"
            wait_until(lambda: _answers(address), f"web-{version} answers", within_s=60)
        elif part in {"worker", "cycles"}:
            log = self.log(version, part)
            wait_until(lambda: "ready." in log.read_text(encoding="utf-8"), f"{part}-{version}", within_s=60)

    def tracebacks(self) -> str:
        """Return the tracebacks in the logs of the parts."""
        texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(self.home.glob("*.log"))}
        return "\n".join(
            f"{name}: {text[text.index('Traceback') :][:6000]}"
            for name, text in texts.items()
            if "Traceback" in text
        )

    def end(self) -> None:
        """Kill everything."""
        for process in self.running.values():
            kill_hard([*descendants(process.pid), process.pid])
            process.wait()


@pytest.fixture
def installation(
    before: Path, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, valkey: ValkeyServer
) -> Iterator[Installation]:
    made = Installation(
        home=tmp_path,
        before=before,
        variables={
            "ALLOTMENT_HOME": str(tmp_path),
            "ALLOTMENT_DATABASE_URL": postgres_url,
            "ALLOTMENT_BROKER_URL": valkey.url,
            "ALLOTMENT_DEMO": "off",
            "ALLOTMENT_RATE_READS": "0",
            "ALLOTMENT_RATE_WRITES": "0",
            "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
        },
    )
    yield made
    made.end()


class Load(threading.Thread):
    """A client that submits jobs and reads them without a pause, at the address of `port`."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__()
        self.port, self.token = port, token
        self.accepted: list[str] = []
        self.troubles: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        role = {"name": "main", "replicas": 1, "image": "x", "resources": {"cpu": 1, "gpu": {"cards": 1}}}
        number = 0
        while not self.over.wait(_PAUSE_S):
            number += 1
            body = {"name": f"job-{number}", "kind": "batch", "roles": [role], "simulate": {"run_s": 5}}
            answer = self.call("POST", "jobs", body)
            if answer is not None:
                self.accepted.append(answer["id"])
            self.call("GET", "jobs?limit=5")

    def call(self, method: str, address: str, body: object = None) -> Any:
        """Send one request; an answer other than the usual one is recorded as trouble."""
        url = f"http://127.0.0.1:{self.port}/api/v1/workspaces/bench/{address}"
        try:
            answer = httpx.request(
                method, url, json=body, headers={"Authorization": f"Bearer {self.token}"}, timeout=20
            )
        except httpx.HTTPError as error:
            self.troubles.append(f"{method} {address}: {error!r}")
            return None
        if answer.status_code not in {200, 202}:
            self.troubles.append(f"{method} {address}: {answer.status_code} {answer.text[:200]}")
            return None
        return answer.json()

    def go_on(self, jobs: int) -> None:
        """Wait until so many more jobs are accepted."""
        wanted = len(self.accepted) + jobs
        wait_until(
            lambda: len(self.accepted) >= wanted or self.troubles, f"{wanted} jobs are accepted", within_s=60
        )


def test_old_processes_work_on_the_new_schema_and_are_replaced_one_by_one(
    installation: Installation, postgres_server: PostgresServer, postgres_url: str
) -> None:
    token = json.loads(installation.run("before", "-m", "benchmarks.support.world", "4", "8", "10", "0"))[
        "token"
    ]
    parts = ("cycles", "worker", "relay", "beat", "web")
    for part in parts:
        installation.start("before", part)
    for part in parts:
        installation.wait_ready("before", part)
    load = Load(installation.ports["before"], token)
    load.start()
    try:
        load.go_on(5)
        installation.run("now", "-m", "allotment.cli", "migrate", "--no-input", "--verbosity", "0")
        load.go_on(15)  # all by the previous version
        for part in parts:
            installation.start("now", part)
            installation.wait_ready("now", part)
            if part == "web":
                load.port = installation.ports["now"]
                # The second answer from here on is the new version's: the old one has finished its request.
                answered = len(load.accepted) + 2
                wait_until(
                    lambda: len(load.accepted) >= answered or load.troubles,  # noqa: B023 (used at once)
                    "the new web process answers",
                )
            installation.stop(part)
            load.go_on(5)
    finally:
        load.over.set()
        load.join()
    assert load.troubles == [], installation.tracebacks()

    name = postgres_url.rpartition("/")[2]
    with postgres_server.connect_database(name) as database:
        wait_until(lambda: _unfinished(database) == 0, "all jobs are done", within_s=60)
        states = database.execute("SELECT state, count(*) FROM scheduling_job GROUP BY state").fetchall()
        assert states == [("succeeded", len(load.accepted))], "none was lost or made twice"
        waits = database.execute(
            "SELECT coalesce(max(extract(epoch FROM admitted_at - submitted_at)), 0)::float"
            " FROM scheduling_job"
        ).fetchone()
        assert waits is not None and waits[0] <= LONGEST_WAIT_S
        held = database.execute("SELECT count(*) FROM scheduling_allocation WHERE released_at IS NULL")
        assert held.fetchone() == (0,)
    for process in installation.running.values():
        assert process.poll() is None
    for file in installation.home.glob("*.log"):
        text = file.read_text(encoding="utf-8")
        assert "violates not-null" not in text and "does not exist" not in text, f"{file.name}:\n{text}"


def _unfinished(database: Any) -> int:
    row = database.execute(
        "SELECT count(*) FROM scheduling_job WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
    ).fetchone()
    return int(row[0])


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
