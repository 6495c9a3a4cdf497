"""Limits hold over all processes: they are counted in the broker's server, and fail open with it."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
import redis
import time_machine
from django.conf import LazySettings
from django.core.cache import cache

from allotment.settings import environment
from foundation.web.rate_limit import _Counter
from tests.fixtures.programs import read_to_end
from tests.fixtures.valkey import ValkeyServer

pytestmark = pytest.mark.server
LIMIT: Final = 40
_COUNT: Final = """
import django, sys
django.setup()
from django.conf import settings
from allotment.settings import environment
settings.CACHES = {"default": environment.cache_settings(sys.argv[1])}
settings.ALLOTMENT_RATES = {"read": 40}
from datetime import UTC, datetime
from foundation.core import clock
from foundation.web.rate_limit import counter
clock.now = lambda: datetime(2026, 11, 21, 12, tzinfo=UTC)  # both in one window
print(sum(not counter.count_requests("read", "key:1", 1).exceeded for _ in range(30)))
"""


@pytest.fixture
def shared(valkey: ValkeyServer, settings: LazySettings) -> Iterator[ValkeyServer]:
    settings.CACHES = {"default": environment.cache_settings(valkey.url)}
    settings.ALLOTMENT_RATES = {"read": LIMIT}
    yield valkey
    cache.close()


@time_machine.travel("2026-11-21T12:00:00Z", tick=False)
def test_threads_together_get_no_more_than_the_limit(shared: ValkeyServer) -> None:
    counter = _Counter()

    def ask(_: int) -> bool:
        standing = counter.count_requests("read", "key:1", 1)
        assert standing is not None
        return not standing.exceeded

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(100))) == LIMIT


def test_processes_count_together(shared: ValkeyServer) -> None:
    command = [sys.executable, "-c", _COUNT, shared.url]
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "allotment.settings.test"}
    running = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) for _ in range(2)]
    granted = [int(read_to_end(process, within_s=60)[0]) for process in running]

    assert all(process.returncode == 0 for process in running)
    assert sum(granted) == LIMIT, "of the 60 that were asked for"


def test_a_broker_that_is_gone_stops_no_request(shared: ValkeyServer) -> None:
    counter = _Counter()
    assert counter.count_requests("read", "key:1", 1) is not None
    shared.process.kill()
    shared.process.wait()

    assert [counter.count_requests("read", "key:1", 1) for _ in range(3)] == [None] * 3


def test_requests_share_one_connection(shared: ValkeyServer) -> None:
    counter = _Counter()
    with redis.Redis(unix_socket_path=str(shared.socket)) as asking:
        before = asking.info("stats")["total_connections_received"]

        for _ in range(5):  # each request is answered in a context of its own
            contextvars.copy_context().run(
                lambda: (counter.count_requests("read", "key:1", 1), cache.get("other"))
            )

        assert asking.info("stats")["total_connections_received"] - before <= 1
