"""API clients that are signed in as users of a small world."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection, connections
from rest_framework.test import APIClient

from foundation.audit import audit_log
from tenants.access.row_policies import WEB_ROLE
from tenants.models import User
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

SECRET = "quite-secret"
"""The name of the job in the `bound` world."""

As = Callable[[User | None], APIClient]


@pytest.fixture(autouse=True)
def _with_row_security(request: pytest.FixtureRequest) -> None:
    """Apply the row policies, which a superuser bypasses, to every request of these tests on PostgreSQL."""
    if connection.vendor == "postgresql" and "db" in request.fixturenames:
        request.getfixturevalue("db")
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL ROLE {WEB_ROLE}")


@pytest.fixture
def w(db: None) -> World:
    """The small world."""
    return world()


@pytest.fixture
def as_user() -> As:
    """Return a client whose requests are those of the user; without credentials for None."""

    def sign_in(user: User | None) -> APIClient:
        client = APIClient()
        if user is not None:
            client.force_authenticate(user)
        return client

    return sign_in


@pytest.fixture
def bound(on_postgres: PostgresServer) -> Iterator[World]:
    """Yield the small world on PostgreSQL, from here on in the role of a web process."""
    made = world()
    jobs.job(made.queue, made.editor, SECRET)
    tenancy.access_key(made.editor)
    tenancy.custom_role(made.workspace, "Hand", "job.view")
    audit_log.record_action(made.admin, "job.test", entity="job", entity_id="x", tenant_id=made.workspace.pk)
    options = connections.databases["default"]["OPTIONS"] | {"options": f"-c role={WEB_ROLE}"}
    connections["default"].close()
    connections.databases["default"]["OPTIONS"] = options
    del connections["default"]
    yield made
