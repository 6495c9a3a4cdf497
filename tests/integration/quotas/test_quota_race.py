"""Admins distribute the same cards at the same moment, on a database that really runs them side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from django.db import connection

from foundation.core.errors import AllotmentError
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaNode, QuotaRevision
from quotas.services.quota import QuotaAmount, quota_set
from tests.builders import clusters, quotas, tenancy
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
AT_ONCE: Final = 8


def test_no_more_is_given_than_there_is(on_postgres: PostgresServer) -> None:
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    operator = tenancy.platform_admin()
    root = quotas.quota_node(cell, tenancy.root())
    quotas.quota(root, flavor, Resource.GPU_CARDS, 10)
    teams = [quotas.quota_node(cell, tenancy.workspace(f"team-{n}")) for n in range(AT_ONCE)]
    barrier = threading.Barrier(AT_ONCE)

    def give(node: QuotaNode) -> str:
        barrier.wait(30)
        try:
            quota_set(acting_user=operator, node=node, amounts=[QuotaAmount(flavor, Resource.GPU_CARDS, 4)])
        except AllotmentError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(give, teams))

    assert sorted(answers) == ["QUOTA_EXCEEDS_PARENT"] * (AT_ONCE - 2) + ["done"] * 2
    assert Quota.unscoped.get(node=root).own_nominal == 2
    assert sum(quota.own_nominal or 0 for quota in Quota.unscoped.all()) == 10
    assert QuotaRevision.unscoped.count() == 2


def test_two_who_read_the_same_version_do_not_both_write(on_postgres: PostgresServer) -> None:
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    operator = tenancy.platform_admin()
    quotas.quota(quotas.quota_node(cell, tenancy.root()), flavor, Resource.GPU_CARDS, 100)
    node = quotas.quota_node(cell, tenancy.workspace())
    barrier = threading.Barrier(AT_ONCE)

    def give(cards: int) -> str:
        barrier.wait(30)
        mine = QuotaNode.unscoped.select_related("tenant__parent").get(pk=node.pk)
        amounts = [QuotaAmount(flavor, Resource.GPU_CARDS, cards)]
        try:
            quota_set(acting_user=operator, node=mine, amounts=amounts, version=node.version)
        except AllotmentError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(give, range(1, AT_ONCE + 1)))

    assert sorted(answers) == ["PRECONDITION_FAILED"] * (AT_ONCE - 1) + ["done"]
