"""Celery's settings: each task reaches its queue and no other, and lost work comes back quickly."""

from __future__ import annotations

import socket
import sys

import pytest
from celery.fixups.django import DjangoWorkerFixup
from celery.signals import task_prerun
from django.db import connection
from kombu import Connection

from allotment import celery as workers
from allotment.celery import QUEUES, VISIBILITY_TIMEOUT_S, app
from allotment.processes.schedule import beat_schedule
from allotment.supervisor import programs
from foundation.messaging import due_hints
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import run_to_end
from tests.fixtures.valkey import ValkeyServer

ROUTED = {
    "scheduling.tasks.run_cycle": "cycle",
    "scheduling.tasks.run_cycle_freed": "cycle",
    "scheduling.tasks.execute_cluster": "cluster",
    "scheduling.tasks.observe_cluster": "cluster",
    "scheduling.tasks.observe_clusters": "cluster",
    "scheduling.tasks.sweep_owed": "default",
    "telemetry.tasks.collect_samples": "telemetry",
    "foundation.tasks.heartbeat": "default",
}


@pytest.mark.parametrize(("task", "queue"), ROUTED.items())
def test_each_task_has_its_queue(task: str, queue: str) -> None:
    assert app.amqp.router.route({}, task)["queue"].name == queue


def test_a_message_lies_in_one_queue_only(valkey: ValkeyServer) -> None:
    with Connection(valkey.url) as connection:
        for task in ROUTED:
            app.send_task(task, connection=connection)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(valkey.socket))
        lengths = {}
        for queue in QUEUES:
            client.sendall(f"LLEN {queue}\r\n".encode())
            lengths[queue] = int(client.recv(32).removeprefix(b":"))
    assert lengths == {queue: list(ROUTED.values()).count(queue) for queue in QUEUES}


def test_every_periodic_task_exists() -> None:
    app.loader.import_default_modules()
    missing = {entry["task"] for entry in beat_schedule(observe_every_s=5, demo=True).values()} - set(
        app.tasks
    )
    assert missing == set()


def test_a_worker_loads_neither_pages_nor_printers_of_tracebacks() -> None:
    heavy = ("plotly", "frontend.pages", "rich", "allotment.urls")
    code = (
        "import sys; from allotment.celery import app; app.loader.import_default_modules(); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result = run_to_end([sys.executable, "-c", code], capture_output=True, text=True, within_s=60)
    assert result.stdout.strip() == "[]", result.stderr


LONG = {"scheduling.tasks.run_policy_replay"}
"""Tasks that take longer than the broker waits for an acknowledgement, and are found by their row if lost."""


def test_every_task_of_ours_ignores_results_and_is_acknowledged_late() -> None:
    app.loader.import_default_modules()
    ours = [task for name, task in app.tasks.items() if not name.startswith("celery.")]
    assert ours
    assert [task.name for task in ours if not task.ignore_result] == []
    assert {task.name for task in ours if not task.acks_late} == LONG


def test_a_running_task_is_never_handed_to_a_second_worker() -> None:
    assert app.conf.task_time_limit < VISIBILITY_TIMEOUT_S
    app.loader.import_default_modules()
    own = {name: task.time_limit for name, task in app.tasks.items() if task.time_limit}
    assert own.keys() >= LONG
    assert max(limit for name, limit in own.items() if name not in LONG) < VISIBILITY_TIMEOUT_S
    assert (
        max(entry["options"]["expires"] for entry in app.conf.beat_schedule.values()) < VISIBILITY_TIMEOUT_S
    )


def test_a_sweep_that_waited_too_long_is_dropped() -> None:
    for entry in beat_schedule(observe_every_s=2, demo=True).values():
        assert entry["options"]["expires"] == min(2 * entry["schedule"], 240.0)


def test_each_queue_has_one_embedded_worker() -> None:
    read = [queue for queues, _ in programs.WORKERS.values() for queue in queues.split(",")]
    assert sorted(read) == sorted(QUEUES)


@pytest.mark.parametrize(
    ("read", "topics"),
    [
        (["cycle"], {"cycle", "freed"}),
        (["cluster"], {"execute", "observe", "delegate", "listen"}),
        (["telemetry", "default"], set()),
    ],
)
def test_a_worker_takes_up_hints_of_the_queues_that_it_reads(
    read: list[str], topics: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: set[str] = set()
    monkeypatch.setattr(app.amqp.queues, "_consume_from", dict.fromkeys(read))
    monkeypatch.setattr(due_hints, "take_up", taken.update)
    workers._follow_hints()
    assert taken == topics


@pytest.mark.server
def test_a_worker_keeps_its_connection_and_replaces_one_that_died(on_postgres: PostgresServer) -> None:
    app.loader.import_default_modules()
    worker, task = DjangoWorkerFixup(app), app.tasks["scheduling.tasks.sweep_owed"]

    def backend() -> int:
        """The server's process behind the connection that the next task finds."""
        worker.on_task_prerun(task)
        task_prerun.send(sender=task)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid: int = cursor.fetchone()[0]
        worker.on_task_postrun(task)
        return pid

    first = backend()
    assert backend() == first
    with on_postgres.connect_database() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    assert backend() != first
