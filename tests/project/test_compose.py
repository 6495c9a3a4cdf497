"""The compose file's commands really run, against a real PostgreSQL and broker, with no container engine."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from allotment.celery import QUEUES
from benchmarks.support.ports import free_port
from benchmarks.support.postgres import PostgresServer
from tests.fixtures.compose import ROOT, VARIABLES, Installation, compose_services, fresh_installation
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import wait_until

OURS = ("migrate", "allotment", "web", "worker", "cycles", "beat", "relay")
ONCE = ("migrate", "allotment")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return compose_services()


@pytest.fixture
def installation(tmp_path: Path, compose_server: PostgresServer, valkey: ValkeyServer) -> Installation:
    return fresh_installation(tmp_path, compose_server, valkey.url)


def _says(log: Path, words: str) -> None:
    def read() -> bool:
        text = log.read_text(encoding="utf-8")
        assert "Traceback" not in text, text
        return words in text

    wait_until(read, f"{log.name} says {words!r}", within_s=40)


def test_every_service_of_ours_is_checked_here(services: dict[str, Any]) -> None:
    ours = {name for name, service in services.items() if "build" in service}
    assert ours == set(OURS)
    assert all("healthcheck" in service for name, service in services.items() if name not in ONCE)


def test_every_service_finds_the_kubeconfigs_under_the_same_path(services: dict[str, Any]) -> None:
    expected = ("./kubeconfigs:/etc/allotment:ro", "audit:/var/lib/allotment-audit")
    assert {tuple(services[name]["volumes"]) for name in OURS} == {expected}


def test_no_process_signs_in_as_the_superuser_and_web_signs_in_as_itself(services: dict[str, Any]) -> None:
    users = {
        name: urlsplit(services[name]["environment"]["ALLOTMENT_DATABASE_URL"]).username for name in OURS
    }
    assert users.pop("web") == "allotment_web"
    assert set(users.values()) == {"allotment"}
    assert VARIABLES["POSTGRES_PASSWORD"] not in {str(services[name]["environment"]) for name in OURS}
    script = "./deploy/postgres/roles.sh:/docker-entrypoint-initdb.d/roles.sh:ro"
    assert script in services["postgres"]["volumes"]
    assert os.access(ROOT / "deploy" / "postgres" / "roles.sh", os.X_OK)


@pytest.mark.server
def test_the_command_line_sets_up_a_fresh_installation(installation: Installation) -> None:
    command = [*installation.services["allotment"]["entrypoint"], "init"]
    first, second = (installation.run("allotment", command) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "one-time password: " in first.stdout
    assert "no changes were made" in second.stdout


def test_every_service_is_safe_from_shadowing_and_knows_its_servers(services: dict[str, Any]) -> None:
    for name in OURS:
        environment = services[name]["environment"]
        assert environment["PYTHONSAFEPATH"] == "1"
        assert environment["DJANGO_SETTINGS_MODULE"] == "allotment.settings.production"
        assert "@postgres:5432/" in environment["ALLOTMENT_DATABASE_URL"]
        assert "@redis:6379/" in environment["ALLOTMENT_BROKER_URL"]


def test_the_workers_read_every_queue(services: dict[str, Any]) -> None:
    read = [services[name]["command"][5].split(",") for name in ("worker", "cycles")]
    assert sorted(itertools.chain(*read)) == sorted(QUEUES)


def test_the_image_collects_its_static_files(installation: Installation) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert "PYTHONSAFEPATH=1" in dockerfile
    assert "allotment collectstatic --no-input" in dockerfile
    result = installation.run("web", ["allotment", "collectstatic", "--no-input", "--verbosity", "0"])
    assert result.returncode == 0, result.stderr
    assert (installation.folder / "static" / "staticfiles.json").is_file()


# Statements of an attacker who can make a web process execute any statement.
_ATTEMPTS = (
    "SET ROLE allotment",
    "SET SESSION AUTHORIZATION allotment",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY scheduling_job TO '/tmp/jobs'",
    "CREATE TABLE mine (id int)",
    "CREATE ROLE other",
    "ALTER ROLE allotment_web SUPERUSER",
    "ALTER TABLE scheduling_job DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE scheduling_job OWNER TO allotment_web",
    "DROP POLICY scheduling_job_change ON scheduling_job",
    "ALTER TABLE foundation_auditrecord DISABLE TRIGGER USER",
    "SET session_replication_role = replica",
    "INSERT INTO foundation_auditseal (number, record_id, hash) VALUES (1, gen_random_uuid(), '')",
    "UPDATE foundation_auditrecord SET action = ''",
    "DELETE FROM foundation_auditrecord",
    "TRUNCATE scheduling_job",
    "DELETE FROM django_migrations",
    "UPDATE foundation_installation SET number = 1",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'allotment'",
)


@pytest.mark.server
def test_the_login_of_web_owns_nothing_and_can_become_no_other(
    installation: Installation, compose_server: PostgresServer
) -> None:
    owner = compose_server.connect_database(
        "allotment", user="allotment"
    )  # the connection that the last attempt tries to end
    with owner, compose_server.connect_database("allotment", user="allotment_web") as web:
        role = (
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM pg_roles WHERE rolname = %s"
        )
        assert web.execute(role, ["allotment_web"]).fetchone() == (False,)
        owned = "SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = current_user"
        assert web.execute(owned).fetchone() == (0,)
        member = "SELECT count(*) FROM pg_auth_members WHERE member = 'allotment_web'::regrole"
        assert web.execute(member).fetchone() == (0,)
        for attempt in _ATTEMPTS:
            with pytest.raises(psycopg.Error) as refused:
                web.execute(attempt)
            assert refused.value.sqlstate == "42501", attempt
        assert web.execute("SELECT count(*) FROM foundation_auditseal").fetchone() is not None


@pytest.mark.server
def test_web_answers(installation: Installation) -> None:
    port = free_port()

    def answer() -> httpx.Response | None:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/livez", timeout=5)
        except httpx.TransportError:
            return None

    with installation.started("web", **{"0.0.0.0": "127.0.0.1", "8080": str(port)}):
        response = wait_until(answer, "the web process answers", within_s=40)
        assert (response.status_code, response.text) == (200, "ok\n")


@pytest.mark.server
def test_workers_beat_and_relay_work_together(installation: Installation) -> None:
    with (
        installation.started("worker") as worker,
        installation.started("cycles") as cycles,
        installation.started("beat") as beat,
    ):
        _says(worker, "ready")
        _says(cycles, "ready")
        _says(beat, "is starting")
        ping = ["celery", "-A", "allotment", "inspect", "ping", "--timeout", "10"]
        result = installation.run("worker", ping)
        assert result.returncode == 0, result.stdout + result.stderr
        with installation.started("relay"):
            for name in ("worker", "cycles", "beat", "relay"):
                check = installation.services[name]["healthcheck"]["test"][1:]
                wait_until(
                    lambda check=check, name=name: installation.run(name, check).returncode == 0,
                    f"the health check of {name} passes",
                    within_s=60,
                    every_s=1,
                )
