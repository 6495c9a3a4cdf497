"""The Celery app: `celery -A allotment worker`, `celery -A allotment beat`.

Messages are hints and the database is the truth, so the settings prefer quick redelivery over exactly-once
delivery: a task is acknowledged when it is done, and a task whose worker died is redelivered within seconds.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, Final

from celery import Celery
from celery.signals import (
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
)
from kombu.entity import Exchange, Queue

from allotment.processes.kill_on_parent_exit import die_with_parent
from allotment.processes.schedule import beat_schedule
from allotment.processes.startup import load_settings
from foundation.core.garbage_collection import gc_freeze_loaded

load_settings()
# Django's system checks are about code, and `make lint` runs them. They import every view and figure, which
# takes as long as the rest of a worker's start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings  # noqa: E402 - only readable now
from django.db import connections  # noqa: E402

QUEUES: Final = ("cycle", "cluster", "telemetry", "default")

# Must exceed the hard time limit plus the longest countdown: a task that is unacknowledged for so long is
# delivered to a second worker.
VISIBILITY_TIMEOUT_S: Final = 300

# By default Celery closes the database connection after every task: opening one and preparing its statements
# costs more than most tasks.
_TASKS_PER_CONNECTION: Final = 1000

ROUTES: Final = {
    "scheduling.tasks.run_cycle*": {"queue": "cycle"},
    "scheduling.tasks.execute_*": {"queue": "cluster"},
    "scheduling.tasks.observe_*": {"queue": "cluster"},
    "scheduling.tasks.delegate_*": {"queue": "cluster"},
    "scheduling.tasks.govern_*": {"queue": "cluster"},
    "telemetry.*": {"queue": "telemetry"},
}


def _broker_options(url: str) -> dict[str, Any]:
    if url.startswith("memory:"):
        return {"polling_interval": 0.05}
    options: dict[str, Any] = {
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        # kombu looks for lost tasks every interval x throttle seconds; with its default of 10 x 10, the
        # task of a killed worker waited 102 s.
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 5,  # without it a hung broker blocks the caller forever
        "socket_connect_timeout": 2,
        "health_check_interval": 25,
    }
    if not url.startswith("redis+socket:"):
        options["socket_keepalive"] = True  # a TCP option; a unix socket connection refuses it
    return options


app = Celery("allotment")
app.conf.update(
    broker_url=settings.ALLOTMENT_BROKER_URL,
    broker_transport_options=_broker_options(settings.ALLOTMENT_BROKER_URL),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # Celery's default, a hundred, ends the worker after 50 minutes
    worker_consumer="allotment.processes.consumer:LastingConsumer",
    visibility_timeout=VISIBILITY_TIMEOUT_S,
    result_backend=None,
    CELERY_DB_REUSE_MAX=_TASKS_PER_CONNECTION,
    task_ignore_result=True,  # state lives in the database
    task_acks_late=True,
    task_reject_on_worker_lost=True,  # attempts are counted in the database, so this cannot loop forever
    task_time_limit=120,
    task_soft_time_limit=90,
    task_publish_retry=False,  # the relay keeps the row and retries
    task_serializer="json",
    accept_content=["json"],
    # Named explicitly: queues without a routing key all get the default one, and each receives every message.
    task_queues=[
        Queue(name, Exchange("allotment", type="direct"), routing_key=name)  # type: ignore[no-untyped-call]
        for name in QUEUES
    ],
    task_default_exchange="allotment",
    task_default_routing_key="default",
    task_default_queue="default",
    task_create_missing_queues=False,  # a typo in a route is an error, not a queue without a consumer
    task_routes=ROUTES,
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=1000,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_soft_shutdown_timeout=20,
    worker_send_task_events=False,
    beat_schedule=beat_schedule(
        observe_every_s=settings.ALLOTMENT_OBSERVE_EVERY_S, demo=settings.ALLOTMENT_DEMO
    ),
    beat_scheduler="foundation.messaging.periodic:OutageTolerantScheduler",
    beat_schedule_filename=str(settings.ALLOTMENT_HOME / "beat-schedule"),
    timezone="UTC",
    enable_utc=True,
)
app.autodiscover_tasks()


@setup_logging.connect
def _keep_django_logging(**_: Any) -> None:
    """Prevent Celery, by being a receiver, from replacing the handlers that Django configured."""


@worker_init.connect
def _remember_worker(**_: Any) -> None:
    # Pool children inherit it at fork: the pid that must still be their parent's.
    app.conf.allotment_worker_pid = os.getpid()


@worker_process_init.connect
def _end_with_worker(**_: Any) -> None:
    # Otherwise a pool child of a worker killed with -9 would finish its task next to the worker that
    # replaces it, and then wait forever.
    die_with_parent(app.conf.allotment_worker_pid)


@worker_process_init.connect
def _pass_over_code(**_: Any) -> None:
    gc_freeze_loaded()


@worker_process_init.connect
def _follow_hints(**_: Any) -> None:
    from foundation.messaging import due_hints  # noqa: PLC0415 (models are loaded only from here on)
    from scheduling.wiring import TASKS  # noqa: PLC0415

    read: Collection[str] = app.amqp.queues.consume_from
    due_hints.take_up(topic for topic, task in TASKS.items() if _queue_of(f"scheduling.tasks.{task}") in read)


def _queue_of(task: str) -> str:
    name: str = app.amqp.router.route({}, task)["queue"].name
    return name


@task_prerun.connect
def _replace_dead_connections(**_: Any) -> None:
    # An open connection may be dead. A health check costs a fraction of a new connection.
    open_connections: Sequence[Any] = connections.all(initialized_only=True)
    for connection in open_connections:
        if not connection.in_atomic_block:
            connection.health_check_done = False
            connection.close_if_health_check_failed()


@task_postrun.connect
def _write_measures(**_: Any) -> None:
    from foundation.monitoring import counters  # noqa: PLC0415 (models are loaded only from here on)

    counters.write_due()


@worker_process_shutdown.connect
def _write_last_measures(**_: Any) -> None:
    from foundation.monitoring import counters  # noqa: PLC0415 (models are loaded only from here on)

    counters.write_measures()


@worker_ready.connect
def _report_at_once(**_: Any) -> None:
    # Beat sends a new entry only after its first period: without this, a new installation would wait for it.
    for task in ("foundation.tasks.heartbeat", "scheduling.tasks.sweep_owed"):
        app.send_task(task)
