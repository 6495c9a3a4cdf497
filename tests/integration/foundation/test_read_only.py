"""A database that answers and takes no writes, on PostgreSQL."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test import RequestFactory

from foundation.monitoring import health
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server


def test_a_primary_that_became_a_standby_is_not_ready(on_postgres: PostgresServer) -> None:
    """A read-only session replaces a standby: readiness reads the same setting for both."""
    request = RequestFactory().get("/readyz")
    assert health.answer_readiness(request).status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    answer = health.answer_readiness(request)
    body = json.loads(answer.content)
    assert (answer.status_code, body["degraded"][:1]) == (503, ["database"])
    assert body["checks"][0]["message"] == "read-only"
