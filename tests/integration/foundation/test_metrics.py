"""`/metrics` counts what exists, names no tenant, and answers only with the token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction
from django.test import Client

from clusters.models import Cell, Cluster, ClusterHealth
from foundation.core import clock
from foundation.messaging import outbox
from foundation.models import AuditRecord, Measure
from foundation.monitoring import counters, health, metrics
from foundation.monitoring.counters import Counter, Histogram
from foundation.web import request_metrics
from tests.builders import jobs
from tests.builders.world import world
from tests.fixtures.wait import wait_until
from tests.integration.foundation.conftest import TOKEN, Found

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_counted")]
SECONDS = Histogram("allotment_tests_seconds", "Only here.", ("kind",))
THINGS = Counter("allotment_tests_total", "Only here.", ("kind",))


def write() -> None:
    """Write the counters to the database, within the test's transaction."""
    inside, connection.in_atomic_block = connection.in_atomic_block, False
    try:
        counters.write_measures()
    finally:
        connection.in_atomic_block = inside


def test_jobs_cards_leases_and_signs_of_life(client: Client, scraped: Callable[[], Found]) -> None:
    here = world()
    jobs.job(here.queue, here.editor)
    running = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=2)])
    jobs.allocate(running, here.nodes[0])
    outbox.add_hint(outbox.Topic.CYCLE, here.cell.pk)
    health.record_heartbeat("worker")
    Cell.unscoped.update(lease_until=clock.now() - timedelta(seconds=5))

    found = scraped()
    assert found["allotment_jobs", "queued"] == 1
    assert found["allotment_jobs", "running"] == 1
    assert found["allotment_jobs", "stopping"] == 0
    assert found["allotment_waiting_jobs", "PENDING_EVALUATION"] == 1
    assert found[("allotment_oldest_wait_seconds",)] >= 0
    assert found["allotment_cards", "sim", "a100"] == 16
    assert found["allotment_cards_allocated", "sim", "a100"] == 2
    assert found[("allotment_outbox_hints",)] == 1
    assert 0 <= found["allotment_heartbeat_age_seconds", "worker"] < 60
    assert found["allotment_leases", "cell", "lapsed"] == 1
    assert found["allotment_leases", "cluster", "free"] == 1
    assert {value for key, value in found.items() if key[0] == "allotment_figures_failed"} == {0}
    text = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).content.decode()
    assert "team-a" not in text


def test_an_unknown_value_is_missing_and_not_0(scraped: Callable[[], Found]) -> None:
    here = world()
    Cluster.unscoped.update(health=ClusterHealth.UNKNOWN, observed_at=None)

    names = {key[0] for key in scraped()}
    assert "allotment_oldest_wait_seconds" not in names
    assert "allotment_cluster_up" not in names
    assert "allotment_cluster_observed_age_seconds" not in names

    Cluster.unscoped.filter(pk=here.cluster.pk).update(
        health=ClusterHealth.UNREACHABLE, observed_at=clock.now() - timedelta(minutes=7)
    )
    found = scraped()
    assert found["allotment_cluster_up", here.cluster.name] == 0
    assert 420 <= found["allotment_cluster_observed_age_seconds", here.cluster.name] < 480


def test_figures_that_cannot_be_read_are_reported_and_the_others_remain(
    scraped: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        raise RuntimeError

    monkeypatch.setitem(metrics._figures, "scheduling", fail)
    health.record_heartbeat("worker")
    found = scraped()
    assert found["allotment_figures_failed", "scheduling"] == 1
    assert ("allotment_heartbeat_age_seconds", "worker") in found


@pytest.mark.parametrize(
    "given", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer " + "x" * 999]
)
def test_without_the_token_nothing_is_answered(client: Client, given: str | None) -> None:
    answer = client.get("/metrics", headers={"Authorization": given} if given else {})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert b"allotment_" not in answer.content
    assert AuditRecord.unscoped.filter(entity_id="metrics").exists(), "who tries it is written down"


def test_without_a_token_in_the_settings_only_an_embedded_installation_answers(
    client: Client, settings: Any
) -> None:
    settings.ALLOTMENT_METRICS_TOKEN = ""
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401
    settings.ALLOTMENT_EMBEDDED = True
    assert client.get("/metrics").status_code == 200


def test_counters_and_distributions_of_several_processes_add_up(scraped: Callable[[], Found]) -> None:
    for _ in range(2):  # as two processes, or one process before and after a restart
        THINGS.add(3, kind="a")
        THINGS.add(kind="b")
        for seconds in (0.004, 0.3, 0.3, 5000.0):
            SECONDS.observe(seconds, kind="a")
        write()

    found = scraped()
    assert found["allotment_tests_total", "a"] == 6
    assert found["allotment_tests_total", "b"] == 2
    buckets = {
        key[2]: value for key, value in found.items() if key[:2] == ("allotment_tests_seconds_bucket", "a")
    }
    assert (buckets["0.005"], buckets["0.25"], buckets["0.5"], buckets["3600.0"]) == (2, 2, 6, 6)
    assert buckets["+Inf"] == found["allotment_tests_seconds_count", "a"] == 8
    assert found["allotment_tests_seconds_sum", "a"] == pytest.approx(2 * 5000.604)


def test_what_another_version_counts_is_left_alone(scraped: Callable[[], Found]) -> None:
    Measure.unscoped.create(name="allotment_invented_total", labels="[]", le="", count=1, total=1)
    Measure.unscoped.create(name=THINGS.name, labels='["a", "of two labels"]', le="", count=1, total=1)
    names = {key[0] for key in scraped()}
    assert not {"allotment_invented_total", THINGS.name} & names


def test_what_cannot_be_written_is_kept() -> None:
    THINGS.add(kind="a")
    with transaction.atomic():
        counters.write_measures()
    assert not Measure.unscoped.exists(), "it might be rolled back"
    write()
    assert Measure.unscoped.get().total == 1


@pytest.mark.parametrize("error", [OperationalError("server closed"), InterfaceError("connection closed")])
def test_a_connection_that_is_gone_fails_no_request(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Gone:
        in_atomic_block = False

        def cursor(self) -> None:
            raise error

    THINGS.add(kind="a")
    with monkeypatch.context() as patched:
        patched.setattr(counters, "connection", Gone())
        counters.write_measures()
    write()
    assert Measure.unscoped.get().total == 1


class Locked:
    """A database whose write lock another process holds until `free` is set."""

    in_atomic_block = False
    vendor = "sqlite"

    def __init__(self, error: Exception | None = None) -> None:
        self.free, self.asked, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.error, self.written = error, list[Any]()

    def __enter__(self) -> Locked:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Locked:
        return self

    def execute(self, sql: str, values: list[Any]) -> None:
        self.asked.set()
        assert self.free.wait(30)
        if self.error is not None:
            raise self.error
        self.written += [values[start : start + 5] for start in range(0, len(values), 5)]

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize("path", ["/api/v1/me", "/metrics"])
@pytest.mark.parametrize("error", [None, OperationalError("database is locked")])
def test_a_request_is_answered_while_another_process_holds_the_write_lock(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, path: str, error: Exception | None
) -> None:
    settings.ALLOTMENT_MEASURES_EVERY_S = 0
    THINGS.add(kind="a")
    with monkeypatch.context() as patched:
        locked = Locked(error)
        patched.setattr(counters, "connection", locked)
        for _ in range(3):
            client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
            THINGS.add(kind="a")
        assert locked.asked.wait(30)
        assert not locked.written
        locked.free.set()
        assert locked.closed.wait(30)
        wait_until(lambda: not counters._CountingProcess.writing.locked(), "the thread has ended")
    kept = counters._counted.get((THINGS.name, ("a",), ""), [0, 0.0])[0]
    written = sum(row[3] for row in locked.written if row[0] == THINGS.name)
    assert written + kept == 4, "nothing is lost, and nothing counted twice"
    assert bool(written) is (error is None)


def test_labels_are_those_that_were_declared() -> None:
    with pytest.raises(TypeError):
        THINGS.add(other="a")


def test_requests_are_counted_by_route_and_not_by_address(
    client: Client, scraped: Callable[[], Found]
) -> None:
    client.get("/api/v1/workspaces/team-a/jobs")
    client.get("/api/v1/workspaces/team-b/jobs")
    client.get("/nothing/here/at/all")
    client.generic("INVENTED", "/api/v1/me")
    client.get("/livez")
    write()

    found = scraped()
    (jobs_route,) = {
        key for key in found if key[0] == "allotment_http_requests_total" and key[2].endswith("/jobs")
    }
    assert found[jobs_route] == 2
    assert not any("team-a" in value for key in found for value in key)
    assert found["allotment_http_requests_total", "GET", "", "404"] == 1
    assert any(key[:2] == ("allotment_http_requests_total", "OTHER") for key in found)
    assert not any("livez" in key for key in found)
    assert any(key[0] == "allotment_http_request_seconds_count" for key in found)


def test_a_pool_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        def pop_stats(self) -> dict[str, int]:
            return {"requests_num": 5, "requests_queued": 2, "requests_wait_ms": 1500, "connections_lost": 1}

    class Pooled:
        pool = Pool()

    monkeypatch.setattr(request_metrics, "connection", Pooled())
    request_metrics.count_pool()
    counted = {key[0]: total for key, (_, total) in counters._counted.items()}
    assert counted == {
        "allotment_database_pool_uses_total": 5,
        "allotment_database_pool_waits_total": 2,
        "allotment_database_pool_wait_seconds_total": 1.5,
        "allotment_database_pool_errors_total": 1,
    }
