"""The relay is woken by the commit of a hint, on a database with notifications."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from foundation.management.commands.relay import Bell
from foundation.messaging import outbox
from foundation.messaging.outbox import Topic
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
_LONG_S = 600.0  # never reached: only a notification ends the waiting earlier


def test_a_committed_hint_ends_the_wait(on_postgres: PostgresServer) -> None:
    listening = threading.Event()

    def relay() -> int:
        try:
            bell = Bell(threading.Event(), poll=_LONG_S)
            bell.listen_for_hints()
            listening.set()
            bell.wait_for_hints()
            return len(outbox.Hint.unscoped.all())
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(relay)
        assert listening.wait(20)
        with transaction.atomic():
            outbox.add_hint(Topic.CYCLE, "cell-1")
        assert waiting.result(20) == 1


def test_a_connection_that_is_lost_is_made_anew(on_postgres: PostgresServer) -> None:
    bell = Bell(threading.Event(), poll=0.05)
    bell.listen_for_hints()
    with on_postgres.connect_database() as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                      " AND datname LIKE 'test%'")  # fmt: skip

    bell.wait_for_hints()
    bell.listen_for_hints()

    outbox.add_hint(Topic.CYCLE, "cell-1")
    assert outbox.Hint.unscoped.count() == 1
    connection.close()
