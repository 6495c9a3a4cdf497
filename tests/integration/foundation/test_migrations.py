"""The tables of the platform, their triggers and policies can be created and removed again."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection

from tests.fixtures.postgres import PostgresServer

# Children before parents: none may pull another one's tables down with it unasked.
APPS = ("scheduling", "quotas", "telemetry", "foundation", "clusters")


def tables() -> set[str]:
    return {name for name in connection.introspection.table_names() if name.startswith(APPS)}


@pytest.mark.server
def test_tables_go_both_ways(on_postgres: PostgresServer) -> None:
    before = tables()
    for app in APPS:
        call_command("migrate", app, "zero", verbosity=0)
        assert not {name for name in tables() if name.startswith(f"{app}_")}
    call_command("migrate", verbosity=0)
    assert tables() == before
