"""`allotment relay --beat` sends the periodic tasks, survives a broker outage, and ends on SIGTERM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from allotment.supervisor import broker
from allotment.supervisor.child import spawn_process
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import wait_until


def _waiting(valkey: ValkeyServer, queue: str = "default") -> int:
    with Connection(valkey.url) as connection:
        channel: Any = connection.default_channel
        return int(channel.client.llen(queue))


@pytest.mark.server
def test_the_relay_sends_the_periodic_tasks_and_outlives_its_broker(
    valkey: ValkeyServer, tmp_path: Path, migrated_file: Path
) -> None:
    environment = {
        **os.environ,
        "ALLOTMENT_BROKER_URL": valkey.url,
        "ALLOTMENT_HOME": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
    }
    command = [sys.executable, "-m", "allotment.cli"]
    shutil.copyfile(migrated_file, tmp_path / "allotment.sqlite3")
    log = tmp_path / "relay.log"
    with log.open("wb") as out:
        relay = subprocess.Popen([*command, "relay", "--beat"], env=environment, stdout=out, stderr=out)
    other = valkey.process
    try:
        wait_until(lambda: _waiting(valkey) > 0, "periodic tasks are sent", within_s=30)
        other.kill()
        other.wait()
        wait_until(
            lambda: "could not send" in log.read_text(encoding="utf-8"), "the outage is logged", within_s=30
        )
        shutil.rmtree(valkey.home / "broker")
        (valkey.home / "broker").mkdir()
        other = spawn_process(broker.broker_program(valkey.home), valkey.home / "broker.log")
        wait_until(lambda: broker.is_broker_ready(valkey.socket), "another broker answers")
        wait_until(lambda: _waiting(valkey) > 0, "they are sent to it as well", within_s=30)
        assert relay.poll() is None, log.read_text(encoding="utf-8")
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(10) == 0, log.read_text(encoding="utf-8")
        assert "Traceback" not in log.read_text(encoding="utf-8")
    finally:
        relay.kill()
        relay.wait()
        other.kill()
        other.wait()
