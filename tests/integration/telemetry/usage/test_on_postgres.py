"""The same figures on PostgreSQL: arithmetic of its own integers, binary columns, and rows written twice."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine

from scheduling.metering.record_usage import record_usage
from scheduling.models import Allocation, UsageInterval
from telemetry.models import Channel, MeasuredUse, Reading, Scope
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import month_period
from telemetry.usage.record_measured import record_measured
from telemetry.usage.report import ReportFilter, load_account, usage_report
from tests.builders.usage_histories import count_by_steps, make_history
from tests.builders.world import world
from tests.fixtures.postgres import PostgresServer

NOW = datetime(2026, 4, 3, 5, 0, tzinfo=UTC)


def read_for_an_hour(hold: Allocation) -> None:
    """Readings of half of what a task holds, over the hour until now."""
    cores = hold.charge["gpu.cores"]
    channel = Channel.unscoped.create(
        scope=Scope.SLICE,
        cluster_id=hold.node.cluster_id,
        node_id=hold.node_id,
        device_id=hold.pk,
        allocation_id=hold.pk,
    )
    since = int((NOW - timedelta(hours=1)).timestamp() * 1000)
    Reading.unscoped.bulk_create(
        Reading(
            channel=channel, at_ms=since + n * 10_000, cores_used=cores / 2, cores_allocated=cores,
            memory_used_mib=1, memory_allocated_mib=2,
        )
        for n in range(360)
    )  # fmt: skip


@pytest.mark.server
def test_reports_are_the_same_on_postgres(on_postgres: PostgresServer) -> None:
    dice = random.Random(4)
    period = month_period(date(2026, 4, 1), ZoneInfo("Asia/Kathmandu"))
    with time_machine.travel(NOW, tick=False):
        here = world()
        history = make_history(here, dice, since=NOW - timedelta(days=4), now=NOW, runs=14)
        hold = next(
            one
            for one in Allocation.unscoped.filter(released_at=None).select_related("node", "attempt")
            if one.attempt.admitted_at < NOW - timedelta(hours=1)
        )
        read_for_an_hour(hold)
        for _ in range(2):
            record_measured(now=NOW)
        assert record_usage(now=NOW)
        assert UsageInterval.unscoped.exists()
        found = load_account(period, None, ReportFilter(), now=NOW)
        start, end = (datetime.fromtimestamp(at / 1000, UTC) for at in (period.start_ms, period.end_ms))
        expected = count_by_steps(history, start, end)

        assert {key: line.figures.reserved for key, line in found.lines.items()} == {
            key: 1000 * one.amounts["reserved"] for key, one in expected.items()
        }
        assert {key: line.figures.amount for key, line in found.lines.items()} == {
            key: one.cost for key, one in expected.items()
        }
        measured = found.lines[hold.attempt.job_id, hold.flavor_id].figures
        assert (measured.measured, measured.used) == (
            hold.charge["gpu.cores"] * 3_600_000,
            hold.charge["gpu.cores"] * 1_800_000,
        )
        assert MeasuredUse.unscoped.count() == 1
        mine = usage_report(here.viewer, period, group_by=GroupBy.TENANT, now=NOW)
        assert {row.key for row in mine.rows} <= {here.workspace.pk}
