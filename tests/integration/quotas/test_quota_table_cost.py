"""The cost of reading a workspace's quota, in statements and in calls per stored row; no timings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Quota, QuotaNode
from quotas.selectors.limits.tree import read_tree_rows
from quotas.selectors.tables.quota import workspace_quota
from quotas.selectors.tables.quota_table import QuotaTable
from tenants.models import Tenant
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db

STATEMENTS: Final = 7
CALLS_PER_ROW: Final = 9
"""Python functions entered per row of a quota or of the ledger, the database adapter included.

A key and limits built anew for each row, and sums over all nodes by id, took 95; models of all nodes and a
quota tree of them 45; reading rows instead of columns 10.
"""
FEW, MANY = 5, 40


class Cell:
    """A cell of workspaces with two queues each, which own and reserve something of every pool."""

    def __init__(self) -> None:
        self.cell = clusters.cell()
        cluster = clusters.cluster(self.cell)
        self.flavors = [clusters.flavor(cluster, f"pool-{number}") for number in range(4)]
        self.workspaces: list[Tenant] = []

    def grow(self, workspaces: int) -> int:
        """Add workspaces until the cell has that many; return the number of stored rows."""
        for number in range(len(self.workspaces), workspaces):
            workspace = tenancy.workspace(f"team-{number}")
            self.workspaces.append(workspace)
            leaves = [quotas.queue(self.cell, workspace, name=f"q{n}").node for n in range(2)]
            Quota.unscoped.bulk_create(self._each(Quota, leaves, own_nominal=8, borrowing_limit=8))
            LedgerEntry.unscoped.bulk_create(self._each(LedgerEntry, leaves, reserved=number % 12))
        return Quota.unscoped.count() + LedgerEntry.unscoped.count()

    def _each(self, model: type[Any], leaves: list[QuotaNode], **fields: int) -> list[Any]:
        return [
            model(node=leaf, flavor=flavor, resource=resource.value, **fields)
            for leaf in leaves
            for flavor in self.flavors
            for resource in Resource
        ]


@contextmanager
def counted_calls() -> Iterator[Callable[[], int]]:
    """Count the Python functions that are entered inside the block."""
    count, before = 0, sys.getprofile()

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        yield lambda: count
    finally:
        sys.setprofile(before)


def test_a_workspace_quota_takes_as_many_statements_in_a_small_cell_as_in_a_large_one() -> None:
    cell = Cell()
    for workspaces in (FEW, MANY):
        cell.grow(workspaces)
        with CaptureQueriesContext(connection) as asked:
            rows = workspace_quota(SYSTEM, cell.workspaces[0])
        assert len(rows) == 3 * len(cell.flavors) * len(Resource)
        assert len(asked) <= STATEMENTS, [each["sql"] for each in asked]


def test_a_workspace_quota_costs_few_calls_per_stored_row() -> None:
    cell = Cell()
    cell.grow(FEW)
    workspace_quota(SYSTEM, cell.workspaces[0])  # statements are compiled once
    stored = cell.grow(MANY)
    with counted_calls() as count:
        workspace_quota(SYSTEM, cell.workspaces[0])
    assert count() / stored < CALLS_PER_ROW


def test_rows_with_equal_limits_share_one_object() -> None:
    cell = Cell()
    cell.grow(FEW)
    rows = read_tree_rows(cell.cell.pk)
    limits = {id(quota.limits) for of in rows.quotas.values() for quota in of}
    keys = {id(quota.key.tree_key) for of in rows.quotas.values() for quota in of}
    assert len(limits) == 1
    assert len(keys) == len(cell.flavors) * len(Resource)


def test_what_a_deleted_queue_still_reserves_counts_as_borrowed() -> None:
    cell = Cell()
    cell.grow(2)
    leaves = QuotaNode.unscoped.filter(is_queue=True)
    lending, borrowing = ([*leaves.filter(tenant=each)] for each in cell.workspaces)
    LedgerEntry.unscoped.update(reserved=0)
    Quota.unscoped.filter(node=borrowing[0]).delete()
    LedgerEntry.unscoped.filter(node=borrowing[0]).update(reserved=6)
    quotas_of = dict.fromkeys((lending[0].pk, lending[1].pk, borrowing[1].pk), "")
    before = QuotaTable(cell.cell.pk).compute_rows(quotas_of)
    queue = borrowing[0].queue
    queue.closed_at = queue.created_at
    queue.save()
    assert QuotaTable(cell.cell.pk).compute_rows(quotas_of) == before
    assert sum(row.lent for row in before[borrowing[1].pk]) == 6 * len(cell.flavors) * len(Resource)
