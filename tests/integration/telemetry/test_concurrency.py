"""Writers beside each other. Only PostgreSQL shows whether they take turns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connections

from clusters.backends.base import DeviceSample
from telemetry.models import Channel, GapCause, PendingBucket, Reading, RolledMinute, TelemetryGap, Tick
from telemetry.services.roll_up import roll_up
from telemetry.store.gaps import gap_open
from tests.fixtures.postgres import PostgresServer
from tests.integration.telemetry.conftest import START, Bench, make_bench

pytestmark = pytest.mark.server


def test_agents_that_write_at_once_add_up(on_postgres: PostgresServer) -> None:
    with make_bench() as bench:
        parts = [[bench.card(START, index, 10.0, 100, node=node)] for node in (0, 1) for index in range(4)]
        _at_once(bench, parts + parts)  # each of them twice
        assert Reading.unscoped.filter(channel__scope="card").count() == 8
        whole = Tick.unscoped.get(channel__scope="cluster")
        assert (whole.cards_sampled, whole.cores_used, whole.memory_used_mib) == (8, 80.0, 800)
        assert Channel.unscoped.filter(allocation_id__isnull=True).count() == 21


def test_roll_ups_and_gaps_beside_themselves(on_postgres: PostgresServer) -> None:
    with make_bench() as bench:
        bench.ticks(30)
        bench.clock.move_to(START + timedelta(minutes=6))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: _closing(roll_up), range(4)))
            cluster = bench.world.cluster.pk
            list(pool.map(lambda _: _closing(lambda: gap_open(cluster, GapCause.EMPTY, "")), range(4)))
        assert RolledMinute.unscoped.count() == 11 * 5
        assert not PendingBucket.unscoped.filter(grain_ms=60_000).exists()
        assert TelemetryGap.unscoped.count() == 1


def _closing(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connections.close_all()


def _at_once(bench: Bench, parts: list[list[DeviceSample]]) -> None:
    start = Barrier(len(parts), timeout=30)

    def write(part: list[DeviceSample]) -> None:
        try:
            connections["default"].ensure_connection()
            start.wait()
            bench.write(*part)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(write, parts))
