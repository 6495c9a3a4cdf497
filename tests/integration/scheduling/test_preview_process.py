"""A preview in a process of its own sees what the request sees, and keeps no connection meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from foundation.compute import serving
from foundation.compute.calls import Call
from foundation.compute.pool import ProcessPool
from foundation.core.errors import PermissionDenied
from foundation.sql.row_scope import NOTHING, use_scope
from scheduling.job_file import parse_job
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import preview_submission
from scheduling.services.jobs.startable import find_startable
from scheduling.services.previewing import MODULES
from tenants.access.grants import bind_to_scopes, remember_grants
from tenants.access.permissions import Permission
from tenants.access.row_scope import act_for
from tests.builders.world import world
from tests.fixtures.compute import PicklingPool
from tests.fixtures.postgres import PostgresServer

ROLE = {"name": "main", "replicas": 1, "resources": {"cpu": 1, "gpu": {"cards": 1}}}


@pytest.fixture
def pool(on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPool]:
    """Yield processes on the database of this test; the caller is in the scope of a request."""
    monkeypatch.setenv("TEST_DATABASE_URL", on_postgres.database_url(connection.settings_dict["NAME"]))
    made = ProcessPool(MODULES, most=1)
    monkeypatch.setattr(serving._Serving, "pool", made)
    yield made
    made.end_idle()


def test_a_process_computes_what_the_request_would(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world()
    spec = parse_job({"name": "asked", "roles": [ROLE]})
    submission = job_check(acting_user=here.editor, workspace=here.workspace, spec=spec)
    with use_scope(NOTHING), remember_grants():
        act_for(here.editor)
        told = preview_submission(submission)
        sizes = find_startable(viewer=here.editor, queue=here.queue)
        bind_to_scopes(here.editor.pk, [Permission.TENANT_VIEW])
        with pytest.raises(PermissionDenied):
            find_startable(viewer=here.editor, queue=here.queue)

    monkeypatch.setattr(serving._Serving, "pool", PicklingPool())
    assert told.starts and told == preview_submission(submission)
    assert sizes == find_startable(viewer=here.editor, queue=here.queue)


class _Looking(PicklingPool):
    """Records whether the request holds a connection while it waits."""

    held: bool | None = None

    def run(self, call: Call, *, wait_s: float, user: str = "") -> Any:
        self.held = connection.connection is not None
        return super().run(call, wait_s=wait_s, user=user)


@pytest.mark.parametrize("pooled", [True, False])
def test_a_pooled_connection_is_given_back_before_waiting(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, pooled: bool
) -> None:
    looking = _Looking()
    monkeypatch.setattr(serving._Serving, "pool", looking)
    here = world()
    connection.close()
    if pooled:
        connection.settings_dict["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 2}
    try:
        with use_scope(NOTHING), remember_grants():
            act_for(here.editor)
            assert find_startable(viewer=here.editor, queue=here.queue)
            assert looking.held is not pooled
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('allotment.user')")
                assert cursor.fetchone() == (str(here.editor.pk),)  # the next connection has it, too
    finally:
        connection.close()
        if pooled:
            connections["default"].close_pool()  # type: ignore[attr-defined]  # PostgreSQL's has one
