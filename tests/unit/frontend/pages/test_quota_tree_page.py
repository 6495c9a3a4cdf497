"""The quota tree page: contents by viewer, batches of changes, previews, refusals, and its cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import Flavor, GpuMode
from foundation.core.quantities import Resource
from frontend.pages.quotas.tree_lines import TreeColumn, draw_meter
from frontend.texts.allocated_use import AllocatedUse
from quotas.models import Quota, QuotaChange, QuotaNode, QuotaRevision
from quotas.selectors.tables.quota_tree import ResourceQuota
from scheduling.models import StartEstimate
from tenants.models import Role, Tenant
from tests.builders import clusters, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
TREE = "/ops/quotas/tree"


class Departments:
    """Two departments below the root: Research with Vision and Speech, Products with Search.

    Each workspace has a queue with 8 GPUs of its own; Research keeps 4, the root 10.
    """

    def __init__(self) -> None:
        self.made: World = world()
        self.cell, self.flavor = self.made.cell, self.made.flavor
        self.research, self.products = tenancy.folder("research"), tenancy.folder("products")
        self.workspaces = {
            slug: tenancy.workspace(slug, parent)
            for slug, parent in (
                ("vision", self.research),
                ("speech", self.research),
                ("search", self.products),
            )
        }
        self.queues = {
            slug: quotas.queue(self.cell, tenant, [self.flavor], cards=8)
            for slug, tenant in self.workspaces.items()
        }
        quotas.gpu_quota(quotas.quota_node(self.cell, self.research), self.flavor, 4)
        root = quotas.quota_node(self.cell, tenancy.root())
        Quota.unscoped.filter(node=root).delete()
        quotas.gpu_quota(root, self.flavor, 10)

    def node(self, tenant: Tenant) -> QuotaNode:
        return quotas.quota_node(self.cell, tenant)

    def nominal(self, node: QuotaNode, resource: Resource = Resource.GPU_CORES) -> int | None:
        row = Quota.unscoped.filter(node=node, flavor=self.flavor, resource=resource).first()
        return row.own_nominal if row else 0

    def address(self, action: str) -> str:
        return f"{TREE}/{self.flavor.pk}/{action}"

    def batch(self, *edits: tuple[QuotaNode, str, str], **more: str) -> dict[str, str]:
        data = dict(more)
        for node, key, text in edits:
            data[f"edit.{node.pk}.{key}"] = text
            data[f"version.{node.pk}"] = str(QuotaNode.unscoped.get(pk=node.pk).version)
        return data

    def move(self, amount: int) -> dict[str, str]:
        """Return the batch that moves so many GPUs from Vision to Speech."""
        giver, taker = (self.node(self.workspaces[slug]) for slug in ("vision", "speech"))
        return self.batch((giver, "gpus", str(8 - amount)), (taker, "gpus", str(8 + amount)))


@pytest.fixture
def there() -> Departments:
    return Departments()


@pytest.fixture
def admin(there: Departments, client: Client) -> Client:
    client.force_login(tenancy.user("anna", there.research, Role.ADMIN))
    return client


def text_of(client: Client, address: str = TREE, **headers: Any) -> str:
    answer = client.get(address, **headers)
    assert answer.status_code == 200
    return answer.content.decode()


def names_in(text: str) -> list[str]:
    return re.findall(r'data-name="([^"]*)"', text)


def test_all_levels_are_on_one_page(there: Departments, client: Client) -> None:
    client.force_login(there.made.platform_admin)
    text = text_of(client)
    assert names_in(text) == [
        "Root",
        "Products",
        "Search",
        "Research",
        "Speech",
        "Vision",
        "Team A",
        "Team B",
    ]
    assert 'data-cell="gpus"' in text
    assert 'data-cell="cpu"' in text
    assert 'data-cell="gpu.memory"' in text_of(client, f"{TREE}?resource=gpu.memory")


def test_more_quota_than_the_pool_has_is_marked(there: Departments, client: Client) -> None:
    client.force_login(there.made.platform_admin)
    # 10 of the root, 16 of teams A and B, 4 + 16 of Research and 8 of Products on 16 GPUs.
    assert "×3.38" in text_of(client)


@pytest.mark.parametrize(
    ("who", "role", "sees", "edits"),
    [
        ("research", Role.ADMIN, ["Research", "Speech", "Vision"], ["Speech", "Vision"]),
        ("research", Role.EDITOR, ["Research", "Speech", "Vision"], []),
        ("research", Role.VIEWER, ["Research", "Speech", "Vision"], []),
        ("vision", Role.ADMIN, ["Vision"], []),
        ("vision", Role.VIEWER, ["Vision"], []),
    ],
)
def test_a_viewer_sees_their_part_and_edits_what_they_decide(
    there: Departments, client: Client, who: str, role: Role, sees: list[str], edits: list[str]
) -> None:
    client.force_login(tenancy.user("kim", Tenant.unscoped.get(slug=who), role))
    text = text_of(client)
    assert names_in(text) == sees
    assert "Products" not in text
    editable = re.findall(r'data-name="([^"]*)" data-own="[^"]*"[^>]* data-editable', text)
    assert editable == edits
    below = there.node(there.workspaces["vision"]).pk
    rows = text_of(client, f"{TREE}/rows/{below}")
    assert names_in(rows) == ["default"]
    assert ("data-editable" in rows) == (role is Role.ADMIN)
    assert client.get(f"{TREE}/rows/{there.node(there.products).pk}").status_code == 404
    assert names_in(text_of(client, f"{TREE}?q=products")) == []


def test_a_user_without_a_role_sees_no_quota(there: Departments, client: Client) -> None:
    client.force_login(tenancy.user("nobody"))
    text = text_of(client)
    assert "No quota yet" in text
    assert there.flavor.name not in text


def test_the_filter_finds_names_with_those_above(there: Departments, client: Client) -> None:
    client.force_login(there.made.platform_admin)
    assert names_in(text_of(client, f"{TREE}?q=VISI")) == ["Root", "Research", "Vision"]
    assert "No results" in text_of(client, f"{TREE}?q=nothing-like-it")


def test_a_move_is_previewed_and_saved_as_one_revision(there: Departments, admin: Client) -> None:
    preview = admin.post(there.address("check"), there.move(3)).content.decode()
    assert "Impact of this change" in preview
    assert not QuotaRevision.unscoped.exists()
    answer = admin.post(there.address("save"), {**there.move(3), "reason": "a deadline"})
    assert answer.status_code == 302
    revision = QuotaRevision.unscoped.get()
    assert revision.reason == "a deadline"
    # The queues hold all quota of their workspaces, and change with them.
    assert there.nominal(there.queues["vision"].node) == 500
    assert there.nominal(there.queues["speech"].node) == 1100
    for resource, each in ((Resource.GPU_CARDS, 1), (Resource.GPU_MEMORY, there.flavor.card_memory_mib)):
        assert there.nominal(there.queues["speech"].node, resource) == 11 * each
    assert there.nominal(there.node(there.research)) == 400
    assert QuotaChange.unscoped.filter(revision=revision).count() == 12


def test_the_starts_after_a_batch_can_be_estimated(there: Departments, admin: Client) -> None:
    assert "Estimate starts" in admin.post(there.address("check"), there.move(3)).content.decode()

    shown = admin.post(there.address("check"), there.move(3) | {"estimate": "1"}).content.decode()

    made = StartEstimate.unscoped.get()
    assert f"/change-estimate?of={made.pk}" in shown
    queues = {str(there.queues[slug].node_id): cards for slug, cards in (("vision", 5), ("speech", 11))}
    changed = {row[0]: row[3] for row in made.asked["quotas"] if row[2] == Resource.GPU_CARDS}
    assert changed == queues


def test_a_queue_that_is_changed_itself_does_not_follow(there: Departments, admin: Client) -> None:
    vision, queue = there.node(there.workspaces["vision"]), there.queues["vision"].node
    batch = there.batch((vision, "gpus", "10"), (queue, "gpus", "6"))
    assert admin.post(there.address("save"), batch).status_code == 302
    assert (there.nominal(vision), there.nominal(queue)) == (400, 600)


def test_one_refused_change_refuses_all(there: Departments, admin: Client) -> None:
    vision, speech = (there.node(there.workspaces[slug]) for slug in ("vision", "speech"))
    batch = there.batch((vision, "gpus", "9"), (speech, "gpus", "99"), reason="mine")
    preview = admin.post(there.address("check"), batch)
    assert preview.status_code == 200
    assert "children of Research would have" in preview.content.decode()
    answer = admin.post(there.address("save"), batch)
    assert answer.status_code == 422
    assert "Research has 20 GPUs" in answer.content.decode()
    assert there.nominal(there.queues["vision"].node) == 800
    assert not QuotaRevision.unscoped.exists()


@pytest.mark.parametrize(
    ("key", "typed", "said"),
    [
        ("gpus", "many", "Enter a number of GPUs"),
        ("gpus", "-1", "Enter a number of GPUs"),
        ("gpus", "1e9", "Enter a number of GPUs"),
        ("gpus", "nan", "Enter a number of GPUs"),
        ("gpus", "2.5", "Enter a number of whole GPUs"),
        ("cpu", "lots", "Invalid CPU amount"),
        ("memory", "64Xi", "Invalid memory amount"),
        ("gpu.cards", "1.5", "Enter a whole number"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_cell(
    there: Departments, admin: Client, key: str, typed: str, said: str
) -> None:
    vision = there.node(there.workspaces["vision"])
    answer = admin.post(there.address("save"), there.batch((vision, key, typed)))
    assert answer.status_code in (400, 422)
    text = answer.content.decode()
    assert said in text
    assert f"edit.{vision.pk}.{key}" in text
    assert not QuotaRevision.unscoped.exists()


def test_units_are_those_that_people_read(there: Departments, client: Client) -> None:
    client.force_login(there.made.platform_admin)
    root = there.node(tenancy.root())
    batch = there.batch((root, "cpu", "不限"), (root, "memory", "1.5"), (root, "gpu.memory", "512Mi"))
    Quota.unscoped.filter(node__is_queue=True).delete()
    Quota.unscoped.filter(node=there.node(there.research)).delete()
    assert client.post(there.address("save"), batch).status_code == 302
    assert there.nominal(root, Resource.CPU) is None
    assert there.nominal(root, Resource.MEMORY) == 1536
    assert there.nominal(root, Resource.GPU_MEMORY) == 512


def test_a_part_of_a_gpu_is_quota_of_a_pool_of_slices(there: Departments, client: Client) -> None:
    parts = clusters.flavor(
        there.made.cluster, "parts", card_model="A10", card_memory_mib=24_576, mode=GpuMode.SLICE
    )
    root = there.node(tenancy.root())
    client.force_login(there.made.platform_admin)
    batch = there.batch((root, "gpus", "2.5"))
    assert client.post(f"{TREE}/{parts.pk}/save", batch).status_code == 302
    rows = Quota.unscoped.filter(node=root, flavor=parts).values_list("resource", "own_nominal")
    assert dict(rows) == {"gpu.cards": None, "gpu.cores": 250, "gpu.memory": 61_440}


def test_a_page_that_is_too_old_is_refused(there: Departments, admin: Client) -> None:
    old = there.move(2)
    assert admin.post(there.address("save"), there.move(1)).status_code == 302
    assert admin.post(there.address("save"), old).status_code == 412
    assert there.nominal(there.queues["vision"].node) == 700


def test_less_than_is_used_needs_a_choice(there: Departments, admin: Client) -> None:
    quotas.reserve(there.queues["vision"], there.flavor, Resource.GPU_CORES, 800)
    preview = admin.post(there.address("check"), there.move(3)).content.decode()
    assert "Usage exceeds quota" in preview
    assert admin.post(there.address("save"), there.move(3)).status_code == 422
    assert admin.post(there.address("save"), {**there.move(3), "shrink": "let_run"}).status_code == 302


def test_no_user_saves_what_they_do_not_decide(there: Departments, client: Client) -> None:
    batch = there.move(1)
    for user, status in (
        (tenancy.user("reader-of-research", there.research, Role.VIEWER), 403),
        (tenancy.user("admin-of-vision", there.workspaces["vision"], Role.ADMIN), 404),
        (tenancy.user("of-nothing"), 404),
    ):
        client.force_login(user)
        for action in ("check", "save"):
            assert client.post(there.address(action), batch).status_code == status
    assert not QuotaRevision.unscoped.exists()


def test_unknown_pools_nodes_and_keys_are_not_found(there: Departments, admin: Client) -> None:
    vision = there.node(there.workspaces["vision"])
    assert admin.get(f"{TREE}?pool=none").status_code == 404
    for name in (f"edit.{vision.pk}.disk", "edit.x.gpus", f"edit.{there.flavor.pk}.gpus"):
        assert admin.post(there.address("save"), {name: "1"}).status_code == 404
    assert admin.post(f"{TREE}/{vision.pk}/save", {}).status_code == 404
    assert admin.get(there.address("save")).status_code == 405


def test_pools_are_never_added_together(there: Departments, client: Client) -> None:
    other: Flavor = clusters.flavor(there.made.cluster, "l40s", card_model="L40S")
    quotas.gpu_quota(there.queues["vision"].node, other, 3)
    client.force_login(there.made.platform_admin)
    for pool, amount in ((there.flavor.name, "800"), ("l40s", "300")):
        text = text_of(client, f"{TREE}?pool={pool}&q=vision")
        row = text[text.index('data-name="Vision"') :]
        assert f'data-cell="gpus" data-raw="{amount}"' in row


def test_the_page_in_chinese(there: Departments, admin: Client) -> None:
    text = text_of(admin, headers={"Accept-Language": "zh-hans"})
    assert "配额树" in text


def test_queries_do_not_grow_with_the_tree(there: Departments, client: Client) -> None:
    client.force_login(there.made.platform_admin)
    counts = []
    for number in range(2):
        text_of(client)
        with CaptureQueriesContext(connection) as asked:
            text_of(client)
        counts.append(len(asked))
        for team in range(12):
            tenant = tenancy.workspace(f"more-{number}-{team}", there.research)
            quotas.queue(there.cell, tenant, [there.flavor], cards=1)
    assert counts[0] == counts[1] <= 24


def test_columns_are_chosen_and_owners_are_admins_of_the_tenant_itself(
    there: Departments, client: Client
) -> None:
    for name in ("zoe", "anna", "bea"):
        tenancy.user(name, there.research, Role.ADMIN)
    tenancy.user("kim", there.research, Role.EDITOR)
    client.force_login(there.made.platform_admin)
    text = text_of(client)
    assert "Allocation rate" in text and "anna" not in text and ">Free</th>" not in text
    chosen = {"columns": ["nominal", "owner", "free"], "next": TREE}
    assert client.post("/lists/quota-tree", chosen).status_code == 302
    text = text_of(client)
    assert ">anna, bea…</td>" in text and "kim" not in text and ">Free</th>" in text
    assert ">Allocation rate</th>" not in text and 'data-cell="gpus"' in text
    assert 'data-cell="cpu"' not in text
    rows = text_of(client, f"{TREE}/rows/{there.node(there.research).pk}")
    assert 'data-label="Owner"' in rows and 'data-label="Allocation rate"' not in rows


def test_the_bar_of_a_row_shows_the_measured_part_of_what_is_allocated() -> None:
    column = TreeColumn(key="gpus", resource=Resource.GPU_CORES, title="GPUs", unit_word="GPUs", unit=100)
    amounts = ResourceQuota(
        nominal=800, own_nominal=800, distributed=0, reserved=400, borrowing_limit=None,
        lending_limit=None, borrowed=0, lent=0,
    )  # fmt: skip
    bar = draw_meter(column, amounts, AllocatedUse(150, 200, 400))
    assert (bar.used, bar.is_partly_measured) == (1.5, True)
    assert "used" in bar.description()
    assert draw_meter(column, amounts, None).used is None
