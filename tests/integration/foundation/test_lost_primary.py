"""Connections to a primary that was demoted are closed without help, with and without a pool."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, close_old_connections, connection, connections, transaction
from pytest_django import DjangoDbBlocker

from allotment.settings import environment
from benchmarks.support import postgres
from foundation.monitoring import health
from tests.fixtures.need import need
from tests.fixtures.programs import run_to_end
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server


@dataclass(frozen=True)
class Pair:
    """Two servers, of which the second follows the first until it is promoted."""

    first: postgres.PostgresServer
    second: postgres.PostgresServer

    @property
    def url(self) -> str:
        """Return the address as the documents spell it: both servers, and only the one that takes writes."""
        folders = ",".join(str(each.socket_folder).replace("/", "%2F") for each in (self.first, self.second))
        return f"postgres://{postgres.OWNER}@{folders}:5432/postgres?target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Promote the second server with all that was written; the first continues read-only."""
        with self.first.connect_database() as first, self.second.connect_database() as second:
            (written,) = first.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
            wait_until(
                lambda: (
                    second.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [written]).fetchone()
                    == (True,)
                ),
                "the second follows",
            )
            first.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            first.execute("SELECT pg_reload_conf()")
            second.execute("SELECT pg_promote(true, 30)")


@pytest.fixture
def pair() -> Iterator[Pair]:
    programs = postgres.find_programs()
    if programs is None:
        need("PostgreSQL", "apt install postgresql")
    settings = {"fsync": "off", "wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}
    with tempfile.TemporaryDirectory(prefix="allotment-pair-") as folder:
        Path(folder).chmod(0o777)
        with postgres.running_postgres(settings) as first:
            home = Path(folder) / "b"
            command = [
                "--pgdata",
                str(home / "data"),
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]
            place = ["--host", str(first.socket_folder), "--username", postgres.OWNER, "--wal-method=stream"]
            run_to_end(
                postgres._as_owner([str(programs / "pg_basebackup"), *command, *place]),
                check=True, cwd="/", capture_output=True, within_s=60,
            )  # fmt: skip
            with postgres.running_postgres(settings, folder=home) as second:
                yield Pair(first, second)


@pytest.fixture(params=["kept", "pooled"])
def on_pair(
    request: pytest.FixtureRequest,
    pair: Pair,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pair]:
    """Make the pair the default database, over one persistent connection or over a pool."""
    if request.param == "pooled":
        monkeypatch.setenv("ALLOTMENT_DATABASE_POOL", "3")
    before = connections.databases["default"]
    entry = environment.database_entry(pair.url, max_age_s=0 if request.param == "pooled" else 600)
    connections["default"].close()
    connections.databases["default"] = {**before, "OPTIONS": {}, **entry}
    del connections["default"]
    try:
        with django_db_blocker.unblock():
            yield pair
    finally:
        connections["default"].close()
        if request.param == "pooled":
            made: Any = connections["default"]
            made.close_pool()
        connections.databases["default"] = before
        del connections["default"]


def _run(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None


def test_writes_go_to_the_new_primary_without_a_restart(on_pair: Pair) -> None:
    pooled = "pool" in connection.settings_dict["OPTIONS"]
    _run("CREATE TABLE probe (n int)")
    _run("INSERT INTO probe VALUES (1)")
    assert _run("SELECT current_setting('unix_socket_directories')") == (str(on_pair.first.socket_folder),)
    on_pair.fail_over()
    wait_until(
        lambda: _run("SELECT current_setting('transaction_read_only')") == ("on",), "it takes no writes"
    )
    assert not health._database().ok
    with pytest.raises(DatabaseError):
        _run("INSERT INTO probe VALUES (2)")
    if pooled:
        connection.close()  # as at the end of a request
    else:
        close_old_connections()  # as between two tasks

    _run("INSERT INTO probe VALUES (3)")
    assert _run("SELECT current_setting('unix_socket_directories')") == (str(on_pair.second.socket_folder),)
    assert health._database().ok


def test_a_transaction_that_meets_a_demoted_primary_ends_whole(on_pair: Pair) -> None:
    _run("CREATE TABLE probe (n int)")
    on_pair.fail_over()
    with pytest.raises(DatabaseError), transaction.atomic():
        _run("SELECT 1")
        with transaction.atomic():
            _run("INSERT INTO probe VALUES (1)")
    connection.close()
    with transaction.atomic():
        _run("INSERT INTO probe VALUES (2)")
    assert _run("SELECT count(*) FROM probe") == (1,)
