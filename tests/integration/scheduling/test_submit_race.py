"""Twenty submissions at the same moment, on a database that really runs them side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from django.db import connection
from rest_framework.test import APIClient

from foundation.models import IdempotencyKey
from foundation.web import idempotency
from scheduling.models import Job, JobEvent
from tenants.models import User
from tests.builders.world import world
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
AT_ONCE: Final = 20
JOBS: Final = "/api/v1/workspaces/team-a/jobs"
BODY: Final = {"name": "train", "roles": [{"resources": {"gpu": {"cards": 1}}}]}


def at_once(user: User, headers: dict[str, str]) -> list[tuple[int, dict[str, Any]]]:
    """Status and body of each of the submissions, all released by one barrier."""
    barrier = threading.Barrier(AT_ONCE)

    def submit(_: int) -> tuple[int, dict[str, Any]]:
        client = APIClient()
        client.force_authenticate(user)
        barrier.wait(30)
        try:
            answer = client.post(JOBS, BODY, headers=headers)
            return answer.status_code, answer.json()
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(submit, range(AT_ONCE)))


def test_one_key_makes_one_job_and_one_answer(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the first of twenty may take longer than callers are made to wait.
    monkeypatch.setattr(idempotency, "WAIT_MS", 60_000)
    answers = at_once(world().editor, {"Idempotency-Key": "once"})

    assert {status for status, _ in answers} == {202}
    assert len({body["id"] for _, body in answers}) == 1
    assert Job.unscoped.count() == JobEvent.unscoped.count() == IdempotencyKey.unscoped.count() == 1


def test_one_name_makes_one_job_and_conflicts(on_postgres: PostgresServer) -> None:
    answers = at_once(world().editor, {})

    assert sorted(status for status, _ in answers) == [202] + [409] * (AT_ONCE - 1)
    assert {body["code"] for status, body in answers if status == 409} == {"NAME_TAKEN"}
    assert Job.unscoped.count() == JobEvent.unscoped.count() == 1
