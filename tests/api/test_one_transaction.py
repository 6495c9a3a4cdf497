"""A safe request reads in one transaction on PostgreSQL, sends the row scope once, and leaves no transaction
open behind: not for a stream, not after a failure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from psycopg.pq import TransactionStatus
from rest_framework.test import APIClient

from foundation.sql import row_scope
from foundation.sql.row_scope import NOTHING
from scheduling.api.jobs import views
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
JOBS = "/api/v1/workspaces/team-a/jobs"


@pytest.fixture
def w(on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> World:
    made = world()
    jobs.job(made.queue, made.editor, "train")
    monkeypatch.setattr(row_scope._ProcessScope, "default", NOTHING)  # as in a web process
    connection.close()
    return made


@pytest.fixture
def statements_sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the statements that are sent to the server besides those that Django knows of."""
    sent: list[bytes] = []
    send = row_scope._send

    def noted(wrapper: Any, statements: bytes) -> None:
        sent.append(statements)
        send(wrapper, statements)

    monkeypatch.setattr(row_scope, "_send", noted)
    return sent


def _client(w: World) -> APIClient:
    with row_scope.whole():
        return APIClient(headers={"Authorization": f"Bearer {tenancy.access_key(w.editor)}"})


def _idle() -> bool:
    return bool(connection.connection.info.transaction_status == TransactionStatus.IDLE)


@pytest.mark.parametrize(("address", "most"), [(JOBS, 5), (f"{JOBS}/train", 9), (f"{JOBS}/train/tasks", 9)])
def test_a_read_costs_so_many_round_trips(
    w: World, statements_sent: list[bytes], address: str, most: int
) -> None:
    client = _client(w)
    client.get(address)  # records the use of the key, once a minute
    statements_sent.clear()

    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200

    kinds = Counter(query["sql"].split(" ")[0].rstrip(";") for query in asked)
    assert (kinds["BEGIN"], kinds["COMMIT"], kinds["SAVEPOINT"]) == (1, 1, 0)
    assert kinds["SELECT"] + kinds["(SELECT"] <= most
    # One scope sees all rows while the user is looked up, then the user's own: the first goes out with BEGIN.
    assert len(statements_sent) == 2
    assert statements_sent[0].startswith(b"BEGIN; SET LOCAL")
    assert _idle()


def test_a_list_of_the_console_is_read_in_one_transaction(w: World, statements_sent: list[bytes]) -> None:
    client, address = Client(), "/w/team-a/jobs?who=all"
    with row_scope.whole():
        client.force_login(w.editor)
    client.get(address)
    statements_sent.clear()

    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200

    kinds = Counter(query["sql"].split(" ")[0].rstrip(";") for query in asked)
    assert kinds["SELECT"] + kinds["(SELECT"] > 15
    # The user, the workspace, the frame and the list, a query each.
    assert (kinds["BEGIN"], kinds["COMMIT"]) == (2, 2)
    assert len(statements_sent) == 6
    assert _idle()


@pytest.mark.parametrize(
    "address",
    [
        *("/w/team-a/overview", "/w/team-a/usage", "/w/team-a/quota", "/ops/reports"),
        *("/ops/queues/team-a/default", "/ops/queues/team-a/default/live"),
    ],
)
def test_a_page_of_many_parts_is_read_in_one_transaction(
    w: World, statements_sent: list[bytes], address: str
) -> None:
    client = Client()
    with row_scope.whole():
        client.force_login(w.editor)
    client.get(address)
    statements_sent.clear()

    assert client.get(address).status_code == 200

    assert sum(statements.startswith(b"BEGIN") for statements in statements_sent) <= 6, statements_sent
    assert _idle()


def test_a_stream_holds_no_transaction(w: World) -> None:
    answer = _client(w).get("/api/v1/events?workspace=team-a", headers={"Accept": "text/event-stream"})

    assert (answer.status_code, answer.streaming) == (200, True)
    assert _idle()


def test_what_fails_is_rolled_back(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    monkeypatch.setattr(views, "job_get", fail)
    client = _client(w)
    client.raise_request_exception = False

    assert client.get(f"{JOBS}/train").status_code == 500
    assert _idle()
    monkeypatch.undo()
    assert client.get(f"{JOBS}/train").status_code == 200


def test_a_refusal_is_written_down_and_the_key_is_noted(w: World) -> None:
    client = _client(w)

    assert client.get("/api/v1/workspaces/team-b/jobs").status_code == 404

    with row_scope.whole(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM foundation_auditrecord WHERE result = 'denied'")
        assert cursor.fetchone() == (1,)
        cursor.execute("SELECT count(*) FROM tenants_accesskey WHERE last_used_at IS NOT NULL")
        assert cursor.fetchone() == (1,)


def test_a_submission_costs_so_many_round_trips(w: World, statements_sent: list[bytes]) -> None:
    client, role = _client(w), {"resources": {"gpu": {"cards": 1}}}
    assert client.post(JOBS, {"name": "first", "roles": [role]}, format="json").status_code == 202
    statements_sent.clear()

    with CaptureQueriesContext(connection) as asked:
        assert client.post(JOBS, {"name": "second", "roles": [role]}, format="json").status_code == 202

    kinds = Counter(query["sql"].split(" ")[0].rstrip(";") for query in asked)
    # The user; the workspace and its policy; the checks; and the writes, which alone hold locks.
    assert (kinds["BEGIN"], kinds["COMMIT"], kinds["SAVEPOINT"]) == (4, 4, 0)
    assert (kinds["INSERT"], kinds["UPDATE"]) == (6, 0)
    assert kinds["SELECT"] + kinds["(SELECT"] <= 8
    assert len(statements_sent) == 4
    assert _idle()
