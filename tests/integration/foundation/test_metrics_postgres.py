"""Metrics on PostgreSQL: read past the row policies, written by several processes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from foundation.models import Measure
from foundation.monitoring import counters, metrics
from foundation.monitoring.counters import Counter
from foundation.sql import row_scope
from tests.builders import jobs
from tests.builders.world import world
from tests.fixtures.postgres import PostgresServer
from tests.integration.foundation.conftest import Found

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_counted")]
THINGS = Counter("allotment_tests_pg_total", "Only here.", ("kind",))


def test_a_web_process_under_the_policies_counts_every_job(
    on_postgres: PostgresServer, scraped: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world()
    jobs.job(here.queue, here.editor)
    monkeypatch.setattr(row_scope._ProcessScope, "default", row_scope.NOTHING)
    with connection.cursor() as cursor:
        cursor.execute("RESET allotment.scope")
        cursor.execute("SET ROLE allotment_web")

    THINGS.add(kind="a")
    counters.write_measures()
    found = scraped()
    assert found["allotment_jobs", "queued"] == 1
    assert ("allotment_oldest_wait_seconds",) in found
    assert found["allotment_tests_pg_total", "a"] == 1, "it writes as well"
    assert 1 <= found[("allotment_database_connections",)] <= found[("allotment_database_connections_max",)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM scheduling_job")
        assert cursor.fetchone() == (0,), "outside of it, this process sees nothing"
        cursor.execute("RESET ROLE")


def test_figures_that_the_database_refuses_take_no_others_with_them(
    on_postgres: PostgresServer, scraped: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        return []

    monkeypatch.setitem(metrics._figures, "measures", fail)  # the first of them
    found = scraped()
    assert found["allotment_figures_failed", "measures"] == 1
    assert found["allotment_figures_failed", "scheduling"] == 0
    assert found["allotment_jobs", "queued"] == 0


def test_processes_that_write_at_once_lose_nothing(on_postgres: PostgresServer) -> None:
    def count() -> None:
        for _ in range(20):
            THINGS.add(kind="a")
            THINGS.add(kind="b")
            counters.write_measures()
        connection.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counters.write_measures()
    assert {row.labels: row.total for row in Measure.unscoped.all()} == {'["a"]': 80, '["b"]': 80}
