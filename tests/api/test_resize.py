"""Changing the memory of a running slice through the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foundation.models import Hint
from quotas.models import LedgerEntry
from scheduling.models import Job, MemoryResize
from tests.api.conftest import As
from tests.builders import pipeline
from tests.builders.stage import Stage, stage_with_slice

pytestmark = pytest.mark.django_db
BASE = "/api/v1/workspaces/team-a/jobs/a/resize"


@pytest.fixture
def stage() -> Stage:
    return stage_with_slice()


def post(client: Any, memory: Any, query: str = "", **headers: str) -> Any:
    return client.post(
        BASE + query, json.dumps({"memory": memory}), content_type="application/json", headers=headers
    )


def test_it_is_accepted_and_reported(stage: Stage, as_user: As) -> None:
    client = as_user(stage.user)
    answer = post(client, "20Gi")
    assert answer.status_code == 202, answer.content
    body = answer.json()
    assert (body["role"], body["index"], body["from_mib"], body["to_mib"]) == ("main", 0, 8192, 20_480)
    assert (body["state"], body["asked_by"], body["ended_at"]) == ("asked", "ed", None)
    assert client.get(BASE).json() == [body]
    assert Hint.unscoped.filter(topic="execute").exists()
    pipeline.run_for(stage.cell, stage.cluster, 12)
    assert client.get(BASE).json()[0]["state"] == "done"
    events = client.get("/api/v1/workspaces/team-a/jobs/a/events").json()["items"]
    assert {"resizing", "resized"} <= {event["code"] for event in events}
    (task,) = client.get("/api/v1/workspaces/team-a/jobs/a/tasks").json()["items"]
    assert task["devices"][0]["memory_mib"] == 20_480


@pytest.mark.parametrize(
    ("memory", "status", "code"),
    [
        ("20480", 400, "INVALID"),
        ("50%", 400, "INVALID"),
        ("0Mi", 400, "BELOW_MINIMUM"),
        ("8Gi", 400, "UNCHANGED"),
        ("400Gi", 400, "ABOVE_MAXIMUM"),
        ("", 400, "REQUIRED"),
    ],
)
def test_mistakes_are_reported_at_their_field(
    stage: Stage, as_user: As, memory: str, status: int, code: str
) -> None:
    answer = post(as_user(stage.user), memory)
    assert answer.status_code == status
    (error,) = answer.json()["errors"]
    assert error["field"] == "memory"
    assert code in (error["code"], "REQUIRED")
    assert not MemoryResize.unscoped.exists()


def test_no_such_task(stage: Stage, as_user: As) -> None:
    body = json.dumps({"memory": "9Gi", "index": 7})
    assert as_user(stage.user).post(BASE, body, content_type="application/json").status_code == 404


def test_a_dry_run_changes_nothing(stage: Stage, as_user: As) -> None:
    answer = post(as_user(stage.user), "20Gi", "?dry_run=true")
    assert answer.status_code in (200, 202), answer.content
    assert not MemoryResize.unscoped.exists()
    assert not LedgerEntry.unscoped.filter(resource="gpu.memory").exclude(reserved=8192).exists()
    assert post(as_user(stage.user), "400Gi", "?dry_run=true").status_code == 400


def test_a_key_asks_once(stage: Stage, as_user: As) -> None:
    client = as_user(stage.user)
    first, again = (post(client, "20Gi", **{"Idempotency-Key": "k-1"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert MemoryResize.unscoped.count() == 1
    assert post(client, "21Gi").status_code == 409


def test_a_stale_version_is_left_alone(stage: Stage, as_user: As) -> None:
    assert post(as_user(stage.user), "20Gi", **{"If-Match": '"1"'}).status_code == 412
    version = Job.unscoped.get().version
    assert post(as_user(stage.user), "20Gi", **{"If-Match": f'"{version}"'}).status_code == 202
