"""The held, borrowed and lent amounts, summed up the tree."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from quotas.selectors.tables.quota_table import tenant_quota_table
from quotas.selectors.tenants.usage import TenantUsage, tenant_usage
from tenants.models import Role, Tenant, User
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db


class Tree:
    """Two folders: one with teams A and B, the other with team C; 8 cards of quota each."""

    def __init__(self) -> None:
        cell = clusters.cell()
        self.flavor = clusters.flavor(clusters.cluster(cell))
        left, right = tenancy.folder("left"), tenancy.folder("right")
        self.teams = {
            name: tenancy.workspace(name, parent)
            for name, parent in (("team-a", left), ("team-b", left), ("team-c", right))
        }
        self.queues = {
            name: quotas.queue(cell, team, [self.flavor], cards=8) for name, team in self.teams.items()
        }
        self.operator: User = tenancy.platform_admin()

    def use(self, name: str, cards: int) -> None:
        quotas.reserve(self.queues[name], self.flavor, Resource.GPU_CORES, 100 * cards)

    def seen(self, viewer: User | None = None) -> dict[str, TenantUsage]:
        return {usage.tenant.slug: usage for usage in tenant_usage(viewer=viewer or self.operator)}


def amounts(usage: TenantUsage) -> tuple[int, int, int, int]:
    (pool,) = usage.flavors
    assert pool.nominal is not None
    return pool.nominal, usage.reserved, usage.borrowed, usage.lent


def test_a_team_that_borrows_and_those_that_lend() -> None:
    tree = Tree()
    tree.use("team-a", 12)
    tree.use("team-b", 2)
    tree.use("team-c", 7)

    seen = tree.seen()

    assert amounts(seen["team-a"]) == (800, 1200, 400, 0)
    # 4 cards are borrowed; what B leaves unused in the same folder is taken before what C does elsewhere.
    assert (amounts(seen["team-b"])[3], amounts(seen["team-c"])[3]) == (400, 0)
    assert (amounts(seen["left"])[2:], amounts(seen["right"])[2:]) == ((0, 0), (0, 0))


def test_a_tenant_lends_what_the_pages_of_quota_say() -> None:
    tree = Tree()
    tree.use("team-a", 20)
    tree.use("team-c", 7)
    team_c = tree.teams["team-c"]
    viewer = tenancy.user("vera", team_c, Role.VIEWER)

    row = next(
        row
        for row in tenant_quota_table(viewer, team_c, tree.queues["team-c"].cell)[0].rows
        if row.resource == Resource.GPU_CORES
    )

    assert amounts(tree.seen(viewer)["team-c"]) == (row.nominal, row.reserved, row.borrowed, row.lent)
    assert row.lent == 100


def test_what_stays_inside_a_folder_is_neither_borrowed_nor_lent_by_it() -> None:
    tree = Tree()
    tree.use("team-a", 10)
    tree.use("team-c", 8)

    seen = tree.seen()

    assert amounts(seen["left"]) == (1600, 1000, 0, 0)
    assert amounts(seen["right"]) == (800, 800, 0, 0)
    root = next(usage for usage in seen.values() if usage.depth == 0)
    assert amounts(root) == (2400, 1800, 0, 0)


def test_no_user_sees_a_tenant_beyond_their_own() -> None:
    tree = Tree()
    viewer = tenancy.user("vera", Tenant.unscoped.get(slug="team-c"), Role.VIEWER)

    assert set(tree.seen(viewer)) == {"team-c"}
