"""A quota administrator in a real browser: build, distribute, be refused, approve, revert, audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from clusters.models import Cell
from quotas.models import Queue
from quotas.services.requests.quota_request import quota_request_create
from scheduling.models import WorkspacePolicy
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.e2e.signed_in import signed_in_page
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium_path
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.server]

CARDS = "resource=gpu.cards"


@pytest.fixture
def address(on_postgres: PostgresServer) -> Iterator[str]:
    """Start a platform with one pool of sixteen cards, all of them the root's, and no other tenant."""
    chromium_path()  # skips the test before anything is started
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    clusters.nodes(flavor, 2)
    quotas.gpu_quota(quotas.quota_node(cell, tenancy.root()), flavor, 16)
    jobs.priority_class()
    tenancy.platform_admin("boss")
    with api_server(on_postgres) as found:
        yield found


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    """Open a browser in which the administrator is signed in."""
    with signed_in_page(address) as opened:
        yield opened


def make_tenant(page: Page, parent: str, name: str, kind: str) -> None:
    page.goto(f"/ops/tenants/{Tenant.unscoped.get(slug=parent).pk}")
    page.get_by_role("link", name="Create child tenant").click()
    page.get_by_role("dialog").locator("#id_name").fill(name)
    page.locator("#id_kind").select_option(kind)
    page.locator("form:has(#id_kind) button.primary").click()
    expect(page.get_by_text(f"{name} created")).to_be_visible()


def open_queue(page: Page, workspace: str) -> None:
    page.goto("/ops/queues")
    page.get_by_role("link", name="Create queue").click()
    page.get_by_role("dialog").locator("#id_workspace").select_option(workspace)
    page.locator("#id_name").fill("default")
    page.locator("#id_flavors").select_option("a100")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(page.get_by_text("Queue default created.")).to_be_visible()


def type_quota(page: Page, above: str, name: str, cards: int) -> None:
    page.goto(f"/ops/quotas?tenant={above}&{CARDS}")
    page.get_by_role("link", name=f"Edit {name}").click()
    page.locator("#quota-gpus").fill(str(cards))
    page.get_by_role("button", name="Fill").click()
    expect(page.locator('input[name="gpu.cards.nominal"]')).to_have_value(str(cards))


def save_quota(page: Page) -> None:
    page.locator("#quota-form").get_by_role("button", name="Save", exact=True).last.click()


@pytest.mark.timeout(180)
def test_an_administrator_divides_a_department(page: Page) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))

    make_tenant(page, "root", "Research", "folder")
    make_tenant(page, "research", "Vision", "workspace")
    make_tenant(page, "research", "Speech", "workspace")
    open_queue(page, "vision")
    open_queue(page, "speech")

    type_quota(page, "root", "Research", 12)
    save_quota(page)
    expect(page.locator("#quota-form")).to_have_count(0)
    type_quota(page, "research", "Vision", 6)
    save_quota(page)
    expect(page.locator("#quota-form")).to_have_count(0)

    # More than the department has left: the sums are shown, and the typed values are kept.
    type_quota(page, "research", "Speech", 8)
    expect(page.locator("#quota-effect").get_by_text("Can't save this quota")).to_be_visible()
    save_quota(page)
    expect(page.get_by_text("Quota not saved")).to_be_visible()
    expect(page.locator(".banner.failed").first).to_contain_text("12 GPUs")
    expect(page.locator('input[name="gpu.cards.nominal"]')).to_have_value("8")
    page.locator("#quota-gpus").fill("4")
    page.get_by_role("button", name="Fill").click()
    expect(page.locator("#quota-effect").get_by_text("Impact of this change")).to_be_visible()
    save_quota(page)
    expect(page.locator("#quota-form")).to_have_count(0)

    hold_jobs_to_a_policy(page)
    approve_a_request_and_take_it_back(page)

    page.goto("/ops/audit")
    for action in ("tenant.create", "queue.create", "quota.", "policy.set", "quota-request.approve"):
        page.get_by_text("Add filter", exact=True).first.click()
        page.get_by_role("combobox", name="Field").select_option("action")
        page.get_by_role("combobox", name="Operator").select_option("=^")
        page.get_by_role("textbox", name="Value").fill(action)
        page.get_by_role("button", name="Add filter").click()
        expect(page.locator("#audit tbody tr").first).to_contain_text("boss")
        page.get_by_role("link", name="Clear filters").click()
    page.get_by_role("button", name="Verify integrity").click()
    expect(page.get_by_text("records intact")).to_be_visible()
    assert wrong == []


def hold_jobs_to_a_policy(page: Page) -> None:
    page.goto(f"/ops/policies/{Tenant.unscoped.get(slug='research').pk}")
    page.locator('[name="maximum.max_run_s"]').fill("86400")
    page.get_by_role("button", name="Save policy").click()
    expect(page.get_by_text("Policy saved.")).to_be_visible()
    assert WorkspacePolicy.unscoped.get().maximum == {"max_run_s": 86400}


def approve_a_request_and_take_it_back(page: Page) -> None:
    vision = Tenant.unscoped.get(slug="vision")
    asked_by(tenancy.user("ada", vision, Role.EDITOR), vision)
    page.goto("/ops/requests")
    page.get_by_role("link", name="Vision").first.click()
    page.get_by_role("button", name="Approve").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    page.goto(f"/ops/quotas?tenant=research&{CARDS}")
    revision = page.locator("tr[id^=revision-]").first
    expect(revision).to_contain_text("6 GPUs → 8 GPUs")
    revision.get_by_role("button", name="Revert").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Revert").click()
    expect(page.get_by_text("Change reverted.")).to_be_visible()
    expect(page.locator("tr[id^=revision-]").first).to_contain_text("8 GPUs → 6 GPUs")


def asked_by(user: User, place: Tenant) -> None:
    node = quotas.quota_node(Cell.unscoped.get(), place)
    flavor = Queue.unscoped.filter(workspace=place).get().flavors.get()
    asked = [{"flavor": flavor.name, "resource": "gpu.cards", "nominal": 8}]
    quota_request_create(acting_user=user, node=node, asked=asked, reason="A new model.")
