"""A worker outlives its broker: it reads again from the next one, by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.bootsteps import CLOSE, RUN
from celery.worker.consumer import Consumer
from kombu import Connection

from allotment.celery import app
from allotment.processes import consumer
from allotment.processes.consumer import LastingConsumer
from allotment.supervisor import broker
from allotment.supervisor.child import spawn_process
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import wait_until
from tests.project import napping


@pytest.fixture
def worker(valkey: ValkeyServer, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "ALLOTMENT_BROKER_URL": valkey.url,
        "ALLOTMENT_HOME": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
    }
    command = [sys.executable, "-m", "celery", "-A", "tests.project.napping:app", "worker", "-Q", "default"]
    options = ["--concurrency", "2", "--without-mingle", "--without-gossip", "--loglevel", "INFO"]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log)
    yield process
    process.kill()
    process.wait()


@pytest.mark.server
def test_a_broker_that_dies_over_a_running_task_and_comes_back_empty(
    valkey: ValkeyServer, worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"

    def works(name: str) -> None:
        done = tmp_path / name
        _send(valkey, napping.leave, str(done))
        wait_until(lambda: done.exists() or worker.poll() is not None, f"{name} is left", within_s=60)
        assert worker.poll() is None, log.read_text(encoding="utf-8")

    wait_until(lambda: "ready." in log.read_text(encoding="utf-8"), "the worker is ready", within_s=60)
    works("before")
    again = valkey.process
    for turn in range(2):
        # One process is at work, and the worker reads on for the other.
        _send(valkey, napping.nap, 60)
        wait_until(lambda: _unacknowledged(valkey) >= 1, "somebody naps")
        again.kill()
        again.wait()
        shutil.rmtree(valkey.home / "broker")
        (valkey.home / "broker").mkdir()
        wait_until(
            lambda turn=turn: (
                log.read_text(encoding="utf-8").count("onnection to broker lost") > turn
                or worker.poll() is not None
            ),
            "the worker has noticed",
        )
        again = spawn_process(broker.broker_program(valkey.home), valkey.home / "broker.log")
        try:
            wait_until(lambda: broker.is_broker_ready(valkey.socket), "another broker answers")
            works(f"after-{turn}")
        except BaseException:
            again.kill()
            raise
    again.kill()
    again.wait()


def _send(valkey: ValkeyServer, task: Any, argument: object) -> None:
    with Connection(valkey.url) as connection:
        task.apply_async([argument], connection=connection)


def _unacknowledged(valkey: ValkeyServer) -> int:
    with Connection(valkey.url) as connection:
        channel: Any = connection.default_channel
        return int(channel.client.hlen("unacked"))


class _Blueprint:
    def __init__(self) -> None:
        self.state, self.restarts = RUN, 0

    def restart(self, parent: object) -> None:
        self.restarts += 1


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> LastingConsumer:
    """A consumer without a broker, whose reading a test plays."""
    monkeypatch.setattr(consumer, "_PAUSES_S", (0.0, 0.0))
    made: Any = LastingConsumer.__new__(LastingConsumer)
    made.blueprint, made.connection, made._pause_s = _Blueprint(), None, 0.0
    made.on_close = made._cancel_connection_timer_entries = lambda: None
    made.init_callback = None
    found: LastingConsumer = made
    return found


@pytest.mark.parametrize("error", [AttributeError("hostname"), RuntimeError("odd"), KeyError("x"), OSError()])
def test_whatever_ends_the_reading_it_starts_again(
    reading: LastingConsumer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    left = [error, error]

    def read(self: LastingConsumer) -> None:
        self.on_ready()
        if left:
            raise left.pop()

    monkeypatch.setattr(Consumer, "start", read)
    reading.keep_reading()
    assert reading.blueprint.restarts == 2


def test_what_fails_before_it_has_ever_read_ends_the_worker(
    reading: LastingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: LastingConsumer) -> None:
        raise RuntimeError("no such queue")

    monkeypatch.setattr(Consumer, "start", fail)
    with pytest.raises(RuntimeError, match="no such queue"):
        reading.keep_reading()


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_it_stops_when_the_consumer_is_ended(
    reading: LastingConsumer, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    def stop(self: LastingConsumer) -> None:
        self.on_ready()
        raise end

    monkeypatch.setattr(Consumer, "start", stop)
    with pytest.raises(end):
        reading.keep_reading()


def test_a_failure_while_it_stops_is_not_the_beginning_of_another_reading(
    reading: LastingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: LastingConsumer) -> None:
        self.on_ready()
        self.blueprint.state = CLOSE
        raise RuntimeError

    monkeypatch.setattr(Consumer, "start", fail)
    with pytest.raises(RuntimeError):
        reading.keep_reading()


def test_workers_read_so_and_never_give_the_broker_up() -> None:
    assert app.conf.worker_consumer == "allotment.processes.consumer:LastingConsumer"
    assert app.conf.broker_connection_max_retries is None
