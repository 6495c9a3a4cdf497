"""The rows of usage by interval, and the query that finds those of some workspaces."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from scheduling.metering import usage_rows as module
from scheduling.metering.usage_rows import rows_of_attempts, usage_of_attempts, usage_rows
from scheduling.models import Allocation, Attempt, GpuRequestMode, UsageInterval
from tenants.models import Tenant
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import world

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("loans", "borrowed"),
    [
        ({}, 0),
        ({"gpu.cores": 30}, 30),
        ({"gpu.cards": 2}, 50),
        ({"gpu.cards": 4, "gpu.cores": 60}, 60),
        ({"gpu.cards": 4}, 100),
        ({"memory": 4096}, 0),
    ],
)
def test_a_borrowed_slice_is_its_share_of_a_gpu(loans: dict[str, int], borrowed: int) -> None:
    w = world()
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25, gpu_memory=1024, replicas=4)
    attempt = jobs.allocate(jobs.job(w.queue, w.editor, roles=[role]), w.nodes[0])
    Allocation.unscoped.filter(attempt=attempt).update(charge={"gpu.cards": 1, "gpu.cores": 25})
    named = {f"{w.flavor.pk}/{resource}": amount for resource, amount in loans.items()}
    Attempt.unscoped.filter(pk=attempt.pk).update(borrowed=named)

    rows = [row for _, row in rows_of_attempts([attempt.pk], now=clock.now() + timedelta(hours=1))]

    assert [(row.cores, row.borrowed) for row in rows] == [(100, borrowed)]


@pytest.mark.parametrize("few", [0, 1, 100])
def test_few_workspaces_are_named_to_the_database(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """PostgreSQL can estimate the jobs of a workspace from its id, and not from a subquery."""
    w = world()
    other = quotas.queue(w.cell, tenancy.workspace("other"), [w.flavor])
    for queue in (w.queue, other):
        jobs.allocate(jobs.job(queue, w.editor, roles=[jobs.RoleOf()]), w.nodes[0])
    monkeypatch.setattr(module, "_FEW", few)
    now = clock.now() + timedelta(hours=1)

    with CaptureQueriesContext(connection) as sent:
        rows = list(usage_rows(0, 2**50, now=now, workspaces=Tenant.unscoped.filter(pk=w.workspace.pk)))

    assert [row.workspace_id for row in rows] == [w.workspace.pk]
    holding = [query["sql"] for query in sent.captured_queries if "scheduling_" in query["sql"]]
    assert len(holding) == 2
    assert [("tenants_tenant" in sql) for sql in holding] == [few == 0] * 2


@pytest.mark.parametrize("written", [False, True])
def test_the_intervals_of_a_run_are_read_without_those_of_others(written: bool) -> None:
    """The page of a job, which is read every few seconds, shows the cost of the job."""
    w = world()
    runs = [jobs.allocate(jobs.job(w.queue, w.editor, roles=[jobs.RoleOf()]), w.nodes[0]) for _ in range(3)]
    now = clock.now() + timedelta(hours=1)
    if written:
        Attempt.unscoped.update(ended_at=now, metered_at=now)
        Allocation.unscoped.update(released_at=now)
        UsageInterval.unscoped.bulk_create(
            UsageInterval(attempt_id=attempt, **row._asdict())
            for attempt, row in rows_of_attempts([run.pk for run in runs], now=now)
        )
    one = Attempt.unscoped.filter(pk=runs[1].pk)

    for read in (
        lambda: list(usage_of_attempts(one, now=now)),
        lambda: list(usage_rows(0, 2**50, now=now, job_id=[runs[1].job_id])),
    ):
        sent: list[tuple[str, Any]] = []
        with connection.execute_wrapper(partial(_record_query, sent)):
            rows = read()
        assert [row.job_id for row in rows] == [runs[1].job_id]
        assert sum(len(_execute(*query)) for query in sent) == 1, "no row of another run is read"
    if connection.vendor == "sqlite":
        with connection.execute_wrapper(partial(_record_query, sent := [])):
            list(usage_of_attempts(one, now=now))
        plans = [str(step) for sql, values in sent for step in _execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert plans and not [plan for plan in plans if "SCAN" in plan], "each table is read by an index"


def _record_query(sent: list[tuple[str, Any]], execute: Any, sql: str, values: Any, *rest: Any) -> Any:
    if "scheduling_" in sql:
        sent.append((sql, values))
    return execute(sql, values, *rest)


def _execute(sql: str, values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()
