"""The readiness addresses: a web process serves while other parts are down."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from allotment.celery import app
from foundation.monitoring import health
from foundation.monitoring.health import CheckResult

pytestmark = pytest.mark.django_db
PARTS = ("worker", "relay", "cycle")


@pytest.fixture
def asked(client: Client) -> Any:
    """Status and body of an address."""

    def ask(path: str) -> tuple[int, dict[str, Any]]:
        answer = client.get(path)
        return answer.status_code, answer.json()

    return ask


def test_a_fresh_installation_serves_and_says_what_comes_next(asked: Any) -> None:
    status, body = asked("/readyz")
    assert (status, body["ready"]) == (200, True)
    found = {check["name"]: check for check in body["checks"]}
    assert found["installation"]["help"] == "run: allotment init"
    assert "no platform admin, no cell, no root tenant" in found["installation"]["message"]
    assert found["cycle"]["ok"]
    assert asked("/readyz/platform")[0] == 503


def test_it_lists_every_check_and_names_those_that_fail(asked: Any) -> None:
    call_command("init", stdout=io.StringIO())
    status, body = asked("/readyz")
    names = [check["name"] for check in body["checks"]]
    assert {"database", "migrations", "broker", "worker", "cycle", "relay", "installation"} <= set(names)
    assert status == 200
    assert set(body["degraded"]) == set(PARTS)
    assert all(set(check) == {"name", "ok", "message", "help"} for check in body["checks"])


def test_all_is_well_when_every_part_has_reported(asked: Any) -> None:
    call_command("init", stdout=io.StringIO())
    for part in PARTS:
        health.record_heartbeat(part)
    for path in ("/readyz", "/readyz/platform"):
        status, body = asked(path)
        assert (status, body["degraded"]) == (200, [])
    assert "next: allotment cluster add" in json.dumps(body)


@pytest.mark.parametrize("part", [*PARTS, "broker"])
def test_web_serves_without_one_of_the_others(asked: Any, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    call_command("init", stdout=io.StringIO())
    for each in PARTS:
        health.record_heartbeat(each)
    monkeypatch.setitem(health._checks, part, lambda: CheckResult(part, False, "away"))
    assert asked("/readyz")[0] == 200
    status, body = asked("/readyz/platform")
    assert (status, body["degraded"]) == (503, [part])


@pytest.mark.parametrize("own", sorted(health.OWN))
def test_web_does_not_serve_without_what_it_needs_itself(
    asked: Any, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setattr(health, f"_{own}", lambda: CheckResult(own, False, "away"))
    assert asked("/readyz")[0] == asked("/readyz/platform")[0] == 503


def test_a_check_that_breaks_is_a_failed_one(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> CheckResult:
        raise ValueError("no")

    monkeypatch.setitem(health._checks, "worker", broken)
    status, body = asked("/readyz")
    assert status == 200
    assert "worker" in body["degraded"]


@pytest.fixture
def frozen_broker() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_a_frozen_broker_does_not_hold_up_a_probe(
    asked: Any, frozen_broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes waits for one second."""
    monkeypatch.setattr(app.conf, "broker_url", frozen_broker)
    monkeypatch.setattr(app.conf, "broker_read_url", frozen_broker)
    begun = time.perf_counter()
    status, body = asked("/readyz")
    took = time.perf_counter() - begun
    assert (status, "broker" in body["degraded"]) == (200, True)
    assert took < 3, "the broker's own limit of 5 s was waited for"
