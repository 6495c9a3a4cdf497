"""The pictures of quota: parts add up to their whole, and what flows into a folder flows out of it."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import GpuMode
from foundation.core.quantities import Resource
from frontend.charts import Sector
from frontend.pages.quotas import picture_parts
from frontend.pages.quotas.tree_lines import layout_of
from frontend.texts.allocated_use import AllocatedUse
from quotas.models import LedgerEntry, Quota, QuotaNode
from quotas.selectors.tables.quota_flows import FlowSide, QuotaPicture
from quotas.selectors.tables.quota_tree import QuotaTreeView
from tenants.models import Role, Tenant, User
from tests.builders import quotas, tenancy
from tests.builders.world import World, world
from tests.integration.quotas.test_quota_tree import LargeCell, RandomWorld

pytestmark = pytest.mark.django_db
CORES = Resource.GPU_CORES


def picture_of(viewer: User, made: RandomWorld) -> QuotaPicture:
    return QuotaPicture(QuotaTreeView(viewer, made.flavors[0], [CORES]), CORES)


def below(node: QuotaNode) -> list[uuid.UUID]:
    """A node and all below it, by the paths of their tenants."""
    rows = QuotaNode.unscoped.filter(tenant__path__startswith=node.tenant.path)
    return list(rows.values_list("pk", flat=True))


@pytest.mark.parametrize("seed", range(300, 320))
def test_parts_of_random_trees_add_up(seed: int) -> None:
    made = RandomWorld(seed)
    picture = picture_of(tenancy.platform_admin(), made)
    assert {one.node_id for one in picture.slices} == set(
        QuotaNode.unscoped.filter(is_queue=False).values_list("pk", flat=True)
    )
    for one in picture.slices:
        nodes = below(QuotaNode.unscoped.select_related("tenant").get(pk=one.node_id))
        own = list(
            Quota.unscoped.filter(node__in=nodes, flavor=made.flavors[0], resource=CORES).values_list(
                "own_nominal", flat=True
            )
        )
        ledger = LedgerEntry.unscoped.filter(node__in=nodes, flavor=made.flavors[0], resource=CORES)
        reserved = sum(ledger.values_list("reserved", flat=True))
        assert one.nominal == (None if None in own else sum(own))
        assert one.allocated + one.borrowed == reserved
        if one.nominal is not None:
            assert one.allocated + one.lent + one.free == one.nominal
        assert one.own_in_use >= 0
        assert one.own_nominal is None or one.own_in_use <= one.own_nominal


@pytest.mark.parametrize("seed", range(400, 430))
def test_what_flows_into_a_folder_flows_out_of_it(seed: int) -> None:
    made = RandomWorld(seed)
    picture = picture_of(tenancy.platform_admin(), made)
    gained: Counter[uuid.UUID] = Counter()
    for flow in picture.flows:
        assert flow.amount > 0
        if not isinstance(flow.target, tuple):
            gained[flow.target] += flow.amount
        if not isinstance(flow.source, tuple):
            gained[flow.source] -= flow.amount
    for one in picture.slices:
        if one.is_folder:
            assert gained[one.node_id] == 0
        else:
            assert gained[one.node_id] == one.borrowed - one.lent


@pytest.mark.parametrize("seed", range(500, 510))
@pytest.mark.parametrize("measure", picture_parts.MEASURES)
def test_sectors_add_up_to_their_parents(seed: int, measure: str) -> None:
    made = RandomWorld(seed)
    column = layout_of(made.flavors[0], "").main_column
    for person in (tenancy.platform_admin(), two_teams(made)):
        picture = picture_of(person, made)
        used = draw_used(made, picture)
        sectors = picture_parts.picture_sectors(picture.slices, measure, column, used)
        check_sums(sectors)
        if measure == picture_parts.USED:
            check_shades(sectors, picture, used)


def draw_used(made: RandomWorld, picture: QuotaPicture) -> dict[uuid.UUID, AllocatedUse | None]:
    parts = (None, (0.0, 0, 0), (50.0, 100, 100), (2000.0, 2100, 2200))
    drawn = {one.node_id: made.draw.choice(parts) for one in picture.slices}
    return {node: None if part is None else AllocatedUse(*part) for node, part in drawn.items()}


def check_shades(
    sectors: list[Sector], picture: QuotaPicture, used: dict[uuid.UUID, AllocatedUse | None]
) -> None:
    """Tenants are shaded by what of their nominal is used; what is not measured has no shade."""
    shown = {sector.key: sector for sector in sectors}
    for one in picture.slices:
        sector, amount = shown.get(str(one.node_id)), used[one.node_id]
        if sector is None or not one.nominal:
            continue
        assert sector.shade == (None if amount is None else min(1, amount.used / one.nominal))
        said = "–" if amount is None else f"{'≥ ' * amount.is_partial}{amount.used / 100:g}"
        assert f"Used: {said}<br>" in sector.note and sector.note.startswith("Nominal quota: ")


def two_teams(made: RandomWorld) -> User:
    """A viewer of two workspaces and of nothing above them."""
    person = tenancy.user("of-two", made.workspaces[0], Role.VIEWER)
    tenancy.member(person, made.workspaces[1], Role.VIEWER)
    return person


def check_sums(sectors: list[Sector]) -> None:
    keys = {sector.key for sector in sectors}
    assert len(keys) == len(sectors)
    assert len([sector for sector in sectors if not sector.parent]) <= 1
    sums: Counter[str] = Counter()
    for sector in sectors:
        assert not sector.parent or sector.parent in keys
        sums[sector.parent] += round(1000 * sector.value)
    for sector in sectors:
        assert sums.get(sector.key, round(1000 * sector.value)) == round(1000 * sector.value)


def test_a_large_tree_is_drawn_with_the_smallest_teams_together() -> None:
    made = LargeCell(12, 30)
    column = layout_of(made.flavors[0], "").main_column
    view = QuotaTreeView(tenancy.platform_admin(), made.flavors[0], [CORES])
    slices = QuotaPicture(view, CORES).slices
    used = dict.fromkeys((one.node_id for one in slices), None)
    sectors = picture_parts.picture_sectors(slices, picture_parts.NOMINAL, column, used)
    check_sums(sectors)
    assert len(sectors) < 3 * picture_parts.TENANTS_MAX
    assert sectors[0].value == pytest.approx(12 * 30 * 8 / 100)


def lent_world() -> World:
    """Team B borrows two GPUs of Team A."""
    made = world()
    quotas.reserve(made.other_queue, made.flavor, CORES, 1000)
    return made


def test_the_page_has_charts_with_tables(client: Client) -> None:
    made = lent_world()
    client.force_login(made.platform_admin)
    text = client.get("/ops/quotas/charts").content.decode()
    for kind in ("sunburst", "treemap", "sankey"):
        assert f'"type": "{kind}"' in text
    assert "Shared in Root \\u2192 Team B" in text
    assert '"Team A' in text
    assert "/ops/quotas/charts" in client.get("/ops/quotas/tree").content.decode()
    assert "Borrowed" in client.get("/ops/quotas/charts?measure=allocated").content.decode()
    shaded = client.get("/ops/quotas/charts?measure=used").content.decode()
    assert "Not measured" in shaded and '"colorscale"' in shaded
    assert client.get("/ops/quotas/charts?pool=none").status_code == 404


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (GpuMode.WHOLE, ["Compute", "GPU count", "GPU memory", "CPU", "Memory"]),
        (GpuMode.NONE, ["CPU", "Memory"]),
    ],
)
def test_the_resources_of_the_charts_are_named_for_what_is_drawn(
    client: Client, mode: GpuMode, words: list[str]
) -> None:
    made = lent_world()
    made.flavor.gpu_mode = mode
    made.flavor.save()
    client.force_login(made.platform_admin)
    answer = client.get("/ops/quotas/charts")
    assert [chip.label for chip in answer.context["resources"]] == words
    assert answer.context["layout"].main_column.resource == (CORES if mode != GpuMode.NONE else Resource.CPU)
    assert "All resources" in client.get("/ops/quotas/tree").content.decode()


def test_others_have_no_names_out_of_sight(client: Client) -> None:
    made = lent_world()
    client.force_login(tenancy.user("of-b", Tenant.unscoped.get(slug="team-b"), Role.VIEWER))
    text = client.get("/ops/quotas/charts").content.decode()
    assert "Other tenants \\u2192 Team B" in text
    assert "Team A" not in text
    assert "Root" not in text.replace("percentRoot", "")
    client.force_login(tenancy.user("of-nothing"))
    assert "No quota yet" in client.get("/ops/quotas/charts").content.decode()
    assert made.flavor.name not in client.get("/ops/quotas/charts").content.decode()


def test_a_workspace_that_is_over_quota_without_a_lender_says_so() -> None:
    made = world()
    Quota.unscoped.all().delete()
    quotas.reserve(made.queue, made.flavor, CORES, 300)
    picture = QuotaPicture(QuotaTreeView(made.platform_admin, made.flavor, [CORES]), CORES)
    sides = {flow.source[0] for flow in picture.flows if isinstance(flow.source, tuple)}
    assert sides == {FlowSide.OVER_QUOTA}


def test_queries_do_not_grow_with_the_tree(client: Client) -> None:
    made = lent_world()
    client.force_login(made.platform_admin)
    counts = []
    for number in range(2):
        client.get("/ops/quotas/charts")
        with CaptureQueriesContext(connection) as asked:
            client.get("/ops/quotas/charts")
        counts.append(len(asked))
        for team in range(8):
            tenant = tenancy.workspace(f"more-{number}-{team}", tenancy.root())
            quotas.queue(made.cell, tenant, [made.flavor], cards=1)
    assert counts[0] == counts[1] <= 30
