"""Quota pages: rights to see and change them, what a refused save keeps, and the number of queries."""

from __future__ import annotations

from html import unescape

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from foundation.core.numbers import LARGEST
from foundation.core.quantities import Resource
from frontend.pages.quotas.typed_amounts import format_typed, read_typed
from frontend.texts.allocated_use import AllocatedUse, explain_use, format_used
from quotas.models import Queue, Quota, QuotaRevision
from scheduling.models import StartEstimate
from scheduling.prediction.forecast import ForecastOptions
from scheduling.services.start_estimate import change
from scheduling.services.start_estimate.run import run_estimate
from tenants.access.permissions import Permission
from tenants.models import Member, Role
from tests.builders import jobs, quotas, tenancy
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def there() -> World:
    """The root keeps 10 cards, each team has 8 in its queue."""
    made = world()
    root = quotas.quota_node(made.cell, tenancy.root())
    Quota.unscoped.filter(node=root, resource=Resource.GPU_CARDS).update(own_nominal=10)
    return made


@pytest.fixture
def admin(there: World, client: Client) -> Client:
    """An admin of the folder, who is no operator of the platform."""
    client.force_login(tenancy.user("anna", tenancy.root(), Role.ADMIN))
    return client


def form_of(there: World, **typed: str) -> dict[str, str]:
    node = quotas.quota_node(there.cell, there.workspace)
    values = {
        f"{resource.value}.{limit}": text
        for resource in Resource
        for limit, text in (
            ("nominal", "8"),
            ("borrowing_limit", "unlimited"),
            ("lending_limit", "unlimited"),
        )
    }
    amounts = {"gpu.cores": "800", "gpu.memory": str(8 * 40), "cpu": "10000", "memory": "97656.25"}
    values |= {f"{name}.nominal": amount for name, amount in amounts.items()}
    return values | {"version": str(node.version), "tenant": "root", **typed}


def place(there: World) -> str:
    node = quotas.quota_node(there.cell, there.workspace)
    return f"/ops/quotas/{node.pk}/{there.flavor.pk}"


def test_a_folder_with_its_children(there: World, admin: Client) -> None:
    text = admin.get("/ops/quotas?resource=gpu.cards").content.decode()
    assert "Team A" in text
    assert "10 unassigned, shared by child tenants" in text
    assert "/ops/quotas?tenant=team-a" in text
    assert 'aria-current="true">GPU count' in text
    assert 'aria-current="true">Compute' in admin.get("/ops/quotas").content.decode()


def cells_of_use(client: Client, address: str) -> set[tuple[str, str]]:
    """Return the contents of the cells of use, and the reasons for empty ones."""
    page = BeautifulSoup(client.get(address).content.decode(), "html.parser")
    cells = page.select('td[data-label="Used"]')
    return {(cell.get_text(strip=True), str(cell.get("title", ""))) for cell in cells}


def test_use_that_is_not_known_says_why(there: World, client: Client) -> None:
    """Team A reserves two GPUs of which nothing is measured, Team B none."""
    quotas.reserve(there.queue, there.flavor, Resource.GPU_CORES, 200)
    client.force_login(there.platform_admin)
    tree, tables = "/ops/quotas/tree", "/ops/quotas?tenant=root"
    for address in (tree, tables):
        assert cells_of_use(client, address) == {("–", "No data in the last 30 s"), ("0", "")}
        other = cells_of_use(client, f"{address}{'&' if '?' in address else '?'}resource=cpu")
        assert other == {("–", "Only compute and GPU memory are measured")}
    unseeing = tenancy.user("nele")
    role = tenancy.custom_role(None, "quota alone", "quota.view", "tenant.view")
    Member.unscoped.create(user=unseeing, tenant=None, custom_role=role)
    client.force_login(unseeing)
    for address in (tree, tables):
        assert cells_of_use(client, address) == {("–", "You can't view these jobs")}
    place = there.queue.workspace.slug
    for address in (f"/w/{place}/quota", f"/ops/queues/{place}/{there.queue.name}"):
        page = unescape(client.get(address).content.decode())
        assert "You can't view these jobs" in page and "No data in the last 30 s" not in page


def test_use_that_is_measured_on_a_part_is_a_lower_bound() -> None:
    whole, part = AllocatedUse(50.0, 200, 200), AllocatedUse(50.0, 100, 200)
    assert (format_used(None, str), format_used(whole, str), format_used(part, str)) == ("–", "50", "≥ 50")
    assert explain_use(whole, Resource.GPU_CORES, str) == ""
    assert explain_use(part, Resource.GPU_CORES, str) == "Measured on 100 of 200 allocated"


@pytest.mark.parametrize("who", ["viewer", "editor", "admin"])
def test_a_member_sees_the_quota_of_the_workspace_and_nothing_of_others(
    there: World, client: Client, who: str
) -> None:
    client.force_login(getattr(there, who))
    text = client.get("/w/team-a/quota").content.decode()
    assert "default" in text
    assert "Team B" not in text
    assert client.get("/w/team-b/quota").status_code == 404
    assert client.get("/ops/quotas?tenant=team-b").status_code == 404
    assert client.get("/ops/quotas?tenant=no-such").status_code == 404


def test_only_those_above_may_edit(there: World, client: Client) -> None:
    client.force_login(there.admin)
    form = form_of(there, **{"gpu.cards.nominal": "9"})
    assert client.post(place(there), form | {"tenant": "team-a"}).status_code == 403
    client.force_login(there.outsider)
    assert client.post(place(there), form).status_code == 404
    assert not QuotaRevision.unscoped.exists()


def test_an_edit_is_saved_and_confirmed(there: World, admin: Client) -> None:
    typed = {"gpu.cards.nominal": "9", "gpu.cards.lending_limit": "0", "reason": "one more"}
    answer = admin.post(place(there), form_of(there, **typed), follow=True)
    text = answer.content.decode()
    assert "Quota of Team A updated" in text
    assert "8 GPUs → 9 GPUs" in text
    assert "one more" in text
    row = Quota.unscoped.get(node=quotas.quota_node(there.cell, there.workspace), resource="gpu.cards")
    assert (row.own_nominal, row.lending_limit) == (1, 0)


def test_a_refused_save_says_the_sums_and_keeps_what_was_typed(there: World, admin: Client) -> None:
    answer = admin.post(place(there), form_of(there, **{"gpu.cards.nominal": "19", "reason": "mine"}))
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "Root has 26 GPUs" in text
    assert 'value="19"' in text
    assert 'value="mine"' in text


def test_what_cannot_be_read_is_marked(there: World, admin: Client) -> None:
    answer = admin.post(place(there), form_of(there, **{"gpu.cards.nominal": "many"}))
    assert answer.status_code == 400
    assert "Enter a whole number or &quot;unlimited&quot;." in answer.content.decode()


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        (Resource.CPU, "2.5", 2500),
        (Resource.CPU, "0.001", 1),
        (Resource.CPU, "500m", 500),
        (Resource.CPU, "0.0001", None),
        (Resource.CPU, "2,5", None),
        (Resource.MEMORY, "1.5", 1536),
        (Resource.MEMORY, "0.0009765625", 1),
        (Resource.MEMORY, "512Mi", 512),
        (Resource.MEMORY, "0.1", None),
        (Resource.GPU_MEMORY, "40Gi", 40 * 1024),
        (Resource.GPU_CARDS, "3.0", 3),
        (Resource.GPU_CARDS, "1.5", None),
        (Resource.GPU_CORES, "9" * 30, None),
    ],
)
def test_amounts_are_typed_in_cores_and_gib(resource: Resource, text: str, amount: int | None) -> None:
    assert read_typed(resource, text) == amount


@given(st.sampled_from(list(Resource)), st.integers(0, LARGEST))
def test_the_text_of_an_amount_is_exact(resource: Resource, amount: int) -> None:
    assert read_typed(resource, format_typed(resource, amount)) == amount


def test_cpu_and_memory_are_saved_as_typed_and_shown_again(there: World, admin: Client) -> None:
    Quota.unscoped.filter(node=quotas.quota_node(there.cell, tenancy.root())).update(own_nominal=10**9)
    typed = {"cpu.nominal": "10002.5", "memory.nominal": "97657.75"}
    assert admin.post(place(there), form_of(there, **typed)).status_code == 302
    node = quotas.quota_node(there.cell, there.workspace)
    more = Quota.unscoped.filter(node=node, own_nominal__gt=0)
    assert set(more.values_list("resource", "own_nominal")) == {("cpu", 2500), ("memory", 1536)}
    text = admin.get(f"/ops/quotas?edit={node.pk}&flavor={there.flavor.pk}").content.decode()
    for name, value in typed.items():
        assert f'name="{name}" value="{value}"' in text


def test_whole_gpus_fill_in_what_belongs_together(there: World, admin: Client) -> None:
    text = admin.post(place(there), form_of(there, gpus="3", fill="1")).content.decode()
    assert 'name="gpu.cores.nominal" value="300"' in text
    assert f'name="gpu.memory.nominal" value="{3 * 40}"' in text
    assert not QuotaRevision.unscoped.exists()


def test_whole_gpus_fill_in_cpu_and_memory_by_the_nodes_of_the_pool(there: World, admin: Client) -> None:
    Quota.unscoped.filter(node=quotas.quota_node(there.cell, tenancy.root())).update(own_nominal=10**9)
    text = admin.post(place(there), form_of(there, gpus="4", fill="1")).content.decode()
    assert f'name="cpu.nominal" value="{there.nodes[0].cpu_millicores // 2000}"' in text
    assert f'name="memory.nominal" value="{there.nodes[0].memory_mib // 2048}"' in text


def test_whole_gpus_that_are_no_number_are_refused_and_keep_what_was_typed(
    there: World, admin: Client
) -> None:
    answer = admin.post(place(there), form_of(there, gpus="abc", fill="1", reason="mine"))
    assert answer.status_code == 400
    assert "Enter a number of whole GPUs, for example 8." in answer.content.decode()
    assert 'value="mine"' in answer.content.decode()


def test_more_quota_than_gpus_is_shown_on_the_page(there: World, admin: Client) -> None:
    assert "exceeds the" not in admin.get("/ops/quotas").content.decode()
    root = quotas.quota_node(there.cell, tenancy.root())
    Quota.unscoped.filter(node=root, resource=Resource.GPU_CORES).update(own_nominal=1600)
    assert (
        "Nominal quota of 32 GPUs exceeds the 16 GPUs of the pool."
        in admin.get("/ops/quotas").content.decode()
    )


def test_the_effect_is_shown_before_saving(there: World, admin: Client) -> None:
    check = f"{place(there)}/check"
    assert "No changes to save." in admin.post(check, form_of(there)).content.decode()
    changed = admin.post(check, form_of(there, **{"gpu.cards.nominal": "9"})).content.decode()
    assert "Jobs to be preempted" in changed
    too_much = admin.post(check, form_of(there, **{"gpu.cards.nominal": "99"})).content.decode()
    assert "children of Root would have" in too_much
    assert not QuotaRevision.unscoped.exists()


def test_the_starts_after_a_change_of_quota_are_estimated(
    there: World, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "OPTIONS", ForecastOptions(futures=8, horizon_s=6 * 3_600.0, paired=True))
    quotas.reserve(there.other_queue, there.flavor, Resource.GPU_CARDS, 8 * len(there.nodes))
    for node in there.nodes:
        held = jobs.job(there.other_queue, there.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        jobs.allocate(held, node)
    finished_runs(there.queue, there.editor, [600] * 20, cards=8)
    jobs.job(there.queue, there.editor, roles=[jobs.RoleOf(cards=8)])
    form = form_of(there, **{"gpu.cards.nominal": "9"})
    assert "Estimate starts" in admin.post(f"{place(there)}/check", form).content.decode()

    shown = admin.post(f"{place(there)}/check", form | {"estimate": "1"}).content.decode()

    made = StartEstimate.unscoped.get()
    assert f'data-live="/change-estimate?of={made.pk}"' in shown
    ((_node, flavor, resource, nominal, _borrowing, _lending),) = [
        row for row in made.asked["quotas"] if row[0] == str(there.queue.node.parent_id)
    ]
    assert (flavor, resource, nominal) == (str(there.flavor.pk), "gpu.cards", 1)
    assert run_estimate(made.pk)
    answer = admin.get(f"/change-estimate?of={made.pk}")
    assert answer.status_code == 286
    assert "Based on 8 simulations" in answer.content.decode()
    refused = admin.post(
        f"{place(there)}/check", form_of(there, **{"gpu.cards.nominal": "99", "estimate": "1"})
    )
    assert "children of Root would have" in refused.content.decode()
    assert not QuotaRevision.unscoped.exists()


def test_a_form_that_is_too_old_is_refused(there: World, admin: Client) -> None:
    admin.post(place(there), form_of(there, **{"gpu.cards.nominal": "9"}))
    old = form_of(there, **{"gpu.cards.nominal": "10", "version": "0"})
    assert admin.post(place(there), old).status_code == 412


def test_a_change_is_taken_back_from_its_history(there: World, admin: Client) -> None:
    admin.post(place(there), form_of(there, **{"gpu.cards.nominal": "9"}))
    revision = QuotaRevision.unscoped.get()
    undo = f"/ops/quotas/revisions/{revision.pk}/revert"
    assert admin.get(undo).status_code == 405
    text = admin.post(undo, {"next": "/ops/quotas"}, follow=True).content.decode()
    assert "Change reverted." in text
    assert "9 GPUs → 8 GPUs" in text
    text = admin.post(undo, {"next": "https://example.com/"}, follow=True).content.decode()
    assert "Revert that one first" in text


def test_the_page_in_chinese(there: World, admin: Client) -> None:
    text = admin.get("/ops/quotas", headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "保障配额" in text


@pytest.mark.parametrize("page", ["/ops/quotas", "/w/team-a/quota"])
def test_queries_do_not_grow_with_the_tree(there: World, client: Client, page: str) -> None:
    client.force_login(there.platform_admin)
    client.get(page)
    with CaptureQueriesContext(connection) as few:
        client.get(page)
    for number in range(4):
        quotas.queue(there.cell, tenancy.workspace(f"team-{number}"), [there.flavor], cards=1)
    with CaptureQueriesContext(connection) as many:
        client.get(page)
    assert len(many) <= len(few) + 4


def test_a_workspace_sees_all_its_resources_and_who_used_them(there: World, client: Client) -> None:
    client.force_login(there.viewer)
    with CaptureQueriesContext(connection) as asked:
        text = client.get("/w/team-a/quota").content.decode()
    assert len(asked) <= 40
    for resource in ("Compute", "GPU count", "GPU memory", "CPU", "Memory"):
        assert f'<span class="pair nowrap">{resource}<span class="sub">' in text
    assert "Averages" in text and "No GPUs allocated in the last 30 days." in text
    assert 'href="#quota-history"' in text
    role = tenancy.custom_role(tenancy.root(), "quota-reader", Permission.TENANT_VIEW, Permission.QUOTA_VIEW)
    reader = tenancy.user("rita")
    Member.unscoped.create(user=reader, tenant=there.workspace, role="", custom_role=role)
    client.force_login(reader)
    text = client.get("/w/team-a/quota").content.decode()
    assert "Nominal quota" in text and "Averages" not in text


def test_a_workspace_shows_how_its_quota_is_shared_and_reclaimed(client: Client, there: World) -> None:
    client.force_login(there.editor)
    rows = client.get("/w/team-a/quota").content.decode().partition('id="sharing-rules"')[2]
    for word in (
        "Cohort",
        "Fair: The tenant with the lowest share",
        "team-a",
        "Lent quota is reclaimed from",
    ):
        assert word in rows, word
    Queue.unscoped.update(preemption=False)
    rows = client.get("/w/team-a/quota").content.decode().partition('id="sharing-rules"')[2]
    assert "Jobs of this queue preempt no jobs." in rows and "reclaimed from" not in rows


def test_pending_requests_of_zero_are_shown_as_zero(client: Client, there: World) -> None:
    client.force_login(there.editor)
    assert 'data-label="Pending GPUs">0<' in client.get("/w/team-a/quota").content.decode()
    jobs.job(there.queue, there.editor, roles=[jobs.RoleOf(cards=3)])
    page = client.get("/w/team-a/quota").content.decode()
    assert 'data-label="Pending GPUs">3<' in page
    compute = page.partition(">Compute<")[2].partition("</tr>")[0]
    assert 'data-label="Pending">3<' in compute
