"""`allotment migrate` runs once at a time and holds up no running process for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from allotment.management.commands import migrate
from clusters.models import Node
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server
_TABLE = Node._meta.db_table
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"


_PACKAGE = """import clusters.migrations
__path__ = [*__path__, *clusters.migrations.__path__]
"""
_LATER = """from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("clusters", "{last}")]
    operations = [migrations.RunSQL("ALTER TABLE {table} ALTER COLUMN flaps SET DEFAULT 7")]
"""


@pytest.fixture
def one_pending(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> PostgresServer:
    """A database with a migration to come that changes the table of nodes."""
    monkeypatch.setattr(migrate, "_LOCK_TIMEOUT_MS", 200)
    monkeypatch.setattr(migrate, "_PAUSE_S", (0.05, 0.1))
    package = tmp_path / "later_migrations"
    package.mkdir()
    (package / "__init__.py").write_text(_PACKAGE, encoding="utf-8")
    [(_, last)] = MigrationLoader(None).graph.leaf_nodes("clusters")
    text = _LATER.format(last=last, table=_TABLE)
    (package / "9999_later.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"clusters": "later_migrations"}
    assert _default_of_flaps() == "0"
    return on_postgres


@contextmanager
def open_reader(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """A transaction that has read the table and does not end."""
    with server.connect_database(_database()) as reader:
        reader.execute("BEGIN")
        reader.execute(f"SELECT count(*) FROM {_TABLE}")
        yield reader


def test_a_table_in_use_is_tried_again_and_no_query_waits_behind_the_change(
    one_pending: PostgresServer,
) -> None:
    name, answered = _database(), []

    def look_and_release(reader: psycopg.Connection) -> None:
        with one_pending.connect_database(name) as other, one_pending.connect_database() as observer:
            wait_until(lambda: observer.execute(_WAITING, [name]).fetchone() == (1,), "the change waits")
            other.execute("SET statement_timeout = '1500ms'")  # longer than the change may wait, and not much
            answered.extend(other.execute(f"SELECT count(*) FROM {_TABLE}") for _ in range(3))
            reader.execute("COMMIT")

    with open_reader(one_pending) as reader:
        beside = threading.Thread(target=look_and_release, args=[reader])
        beside.start()
        call_command("migrate", verbosity=0)
        beside.join()

    assert len(answered) == 3
    assert _default_of_flaps() == "7"


def test_a_table_that_stays_in_use_ends_the_command_in_words(one_pending: PostgresServer) -> None:
    with open_reader(one_pending), pytest.raises(CommandError, match="run allotment migrate again"):
        call_command("migrate", verbosity=0, attempts=2)

    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",), "the connection goes back as it came"
    call_command("migrate", verbosity=0)
    assert _default_of_flaps() == "7"


def test_a_second_migrate_waits_for_the_first(one_pending: PostgresServer) -> None:
    name = _database()
    with one_pending.connect_database(name) as first, one_pending.connect_database() as observer:
        first.execute("SELECT pg_advisory_lock(%s)", [migrate._LOCK])

        def end_the_first() -> None:
            wait_until(lambda: observer.execute(_WAITING, [name]).fetchone() == (1,), "the second waits")
            assert _default_seen_by(first) == "0"
            first.execute("SELECT pg_advisory_unlock(%s)", [migrate._LOCK])

        ending = threading.Thread(target=end_the_first)
        ending.start()
        call_command("migrate", verbosity=0)
        ending.join()
    assert _default_of_flaps() == "7"


def _database() -> str:
    return str(connection.settings_dict["NAME"])


_DEFAULT = (
    f"SELECT column_default FROM information_schema.columns WHERE table_name = '{_TABLE}'"
    " AND column_name = 'flaps'"
)


def _default_of_flaps() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(_DEFAULT)
        found: str | None = cursor.fetchone()[0]
        return found


def _default_seen_by(other: psycopg.Connection) -> str | None:
    row = other.execute(_DEFAULT).fetchone()
    assert row is not None
    found: str | None = row[0]
    return found
