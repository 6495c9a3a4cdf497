"""The rows of usage by interval, and the query that finds those of some workspaces."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from scheduling.metering import usage_rows as module
from scheduling.metering.usage_rows import rows_of_attempts, usage_rows
from scheduling.models import Allocation, Attempt, GpuRequestMode
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
