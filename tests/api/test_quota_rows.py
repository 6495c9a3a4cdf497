"""The quota of a node is one row, whichever endpoint shows it."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from foundation.core.quantities import Resource
from quotas.models import QuotaNode
from tests.api.conftest import As
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db
Row = dict[str, Any]


class Tree:
    """Two folders of two workspaces each, whose quotas, limits and reservations are drawn at random."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        cell = clusters.cell()
        cluster = clusters.cluster(cell)
        self.flavors = [clusters.flavor(cluster), clusters.flavor(cluster, "l40s", card_model="L40S")]
        self.workspaces = []
        nodes = [quotas.quota_node(cell, tenancy.root())]
        for name in "ab":
            folder = tenancy.folder(f"folder-{name}")
            nodes.append(quotas.quota_node(cell, folder))
            for number in range(2):
                team = tenancy.workspace(f"team-{name}{number}", folder)
                self.workspaces.append(team)
                queues = [quotas.queue(cell, team, self.flavors, name=f"q{n}") for n in range(2)]
                nodes += [quotas.quota_node(cell, team), *(queue.node for queue in queues)]
                for queue in queues:
                    self._reserve(queue)
        for node in nodes:
            self._limit(node)

    def _reserve(self, queue: Any) -> None:
        for flavor in self.flavors:
            if amount := self._draw.choice((0, 0, 3, 9)):
                quotas.reserve(queue, flavor, Resource.GPU_CARDS, amount)

    def _limit(self, node: QuotaNode) -> None:
        for flavor in self.flavors:
            if self._draw.random() < 0.7:
                quotas.quota(
                    node,
                    flavor,
                    Resource.GPU_CARDS,
                    self._draw.choice((None, 0, 2, 5, 8)),
                    borrowing_limit=self._draw.choice((None, 0, 4)),
                    lending_limit=self._draw.choice((None, 0, 1)),
                )


@pytest.mark.parametrize("seed", range(8))
def test_both_endpoints_show_the_same_row_for_the_same_node(seed: int, as_user: As) -> None:
    tree, admin = Tree(seed), as_user(tenancy.platform_admin())
    compared = 0
    for workspace in tree.workspaces:
        shown = admin.get(f"/api/v1/workspaces/{workspace.slug}/quota?pageSize=100").json()["items"]
        for node in QuotaNode.unscoped.filter(tenant=workspace).select_related("queue"):
            name = node.queue.name if node.is_queue else ""
            rows = admin.get(f"/api/v1/admin/quotas/{node.pk}").json()["quotas"]
            assert rows == [row for row in shown if row["queue"] == name]
            compared += len(rows)
    assert compared > 8


@pytest.mark.parametrize("seed", range(8))
def test_nominal_is_what_a_node_owns_and_what_it_distributed(seed: int, as_user: As) -> None:
    Tree(seed)
    admin = as_user(tenancy.platform_admin())
    nodes = {node.pk: node for node in QuotaNode.unscoped.all()}
    rows = {
        (pk, row["flavor"]): row
        for pk in nodes
        for row in admin.get(f"/api/v1/admin/quotas/{pk}").json()["quotas"]
    }
    for (pk, flavor), row in rows.items():
        below = [rows[n.pk, flavor] for n in nodes.values() if n.parent_id == pk and (n.pk, flavor) in rows]
        assert row["distributed"] == _sum(each["nominal"] for each in below)
        assert row["nominal"] == _sum((row["own_nominal"], row["distributed"]))
        if below:
            assert row["reserved"] == sum(each["reserved"] for each in below)
        lacking = _lacking(rows, nodes.values(), pk, flavor)
        assert row["borrowed"] == max(0, lacking or 0)
        assert row["lent"] <= max(0, -(lacking or 0))


def _lacking(rows: Any, nodes: Collection[QuotaNode], pk: UUID, flavor: str) -> int | None:
    """Return what a node reserves above its own quota and what its children lend it, negative if less."""
    row, below = rows.get((pk, flavor)), [node.pk for node in nodes if node.parent_id == pk]
    own = row["own_nominal"] if row else 0
    if own is None:
        return None
    found = (row["reserved"] if row and not below else 0) - own
    for child in below:
        lending = rows[child, flavor]["lending_limit"] if (child, flavor) in rows else None
        if (lack := _lacking(rows, nodes, child, flavor)) is not None:
            found += lack if lending is None else max(lack, -lending)
    return int(found)


def _sum(amounts: Any) -> int | None:
    found = list(amounts)
    return None if None in found else sum(found)
