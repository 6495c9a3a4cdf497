"""The quota tree in a real browser: numbers changed in place, previewed and saved; quota that is moved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaRevision
from tests.builders import clusters, jobs, quotas, tenancy
from tests.e2e.signed_in import signed_in_page
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium_path
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.server]


@pytest.fixture
def address(on_postgres: PostgresServer) -> Iterator[str]:
    """A pool of 16 GPUs: Research keeps 4, its teams Vision and Speech have 6 each in a queue."""
    chromium_path()  # nothing is started where there is none
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    clusters.nodes(flavor, 2)
    research = tenancy.folder("research")
    for name in ("vision", "speech"):
        quotas.queue(cell, tenancy.workspace(name, research), [flavor], cards=6)
    quotas.gpu_quota(quotas.quota_node(cell, research), flavor, 4)
    jobs.priority_class()
    tenancy.platform_admin("boss")
    with api_server(on_postgres) as found:
        yield found


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    """A browser in which the administrator is signed in."""
    with signed_in_page(address) as opened:
        yield opened


def row(page: Page, name: str) -> Locator:
    return page.locator(f"tr[data-name='{name}']")


def cell(page: Page, name: str) -> Locator:
    return row(page, name).locator("[data-cell=gpus]")


def type_gpus(page: Page, name: str, amount: str) -> None:
    cell(page, name).press("Enter")  # the keyboard alone is enough
    field = row(page, name).locator("input.cell-input")
    field.fill(amount)
    field.press("Enter")


def cards_of(slug: str) -> int | None:
    return Quota.unscoped.get(
        node__tenant__slug=slug, node__is_queue=True, resource=Resource.GPU_CARDS
    ).own_nominal


@pytest.mark.timeout(180)
def test_quota_is_changed_in_place_and_moved(page: Page) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto("/ops/quotas/tree")
    batch = page.locator("#tree-batch")
    expect(batch).to_be_hidden()

    # More than the folder has: the sum shows it before the server is asked, and the server says it as well.
    type_gpus(page, "Vision", "12")
    expect(row(page, "Research").locator("[data-left]")).to_have_text("-2")
    expect(batch.get_by_text("More distributed than available")).to_be_visible()
    expect(batch.get_by_text("Research has 16 GPUs")).to_be_visible()
    batch.get_by_role("button", name="Save all").click()
    expect(batch.locator("[data-refused]").get_by_text("Research has 16 GPUs")).to_be_visible()
    expect(cell(page, "Vision")).to_have_text("12")

    type_gpus(page, "Vision", "8")
    expect(row(page, "Research").locator("[data-left]")).to_have_text("2")
    expect(batch.get_by_text("Impact of this change")).to_be_visible()
    batch.get_by_label("Reason").fill("a deadline")
    batch.get_by_role("button", name="Save all").click()
    expect(page.get_by_text("Quota of 1 tenant updated")).to_be_visible()
    assert (cards_of("vision"), QuotaRevision.unscoped.get().reason) == (8, "a deadline")

    # By the keyboard: from a row's button to a dialog.
    row(page, "Vision").get_by_role("button", name="Move quota of Vision").press("Enter")
    page.locator("#move-to").select_option(label="Speech")
    page.locator("#move-amount").fill("9")
    page.locator("#move-amount").press("Enter")
    expect(page.get_by_text("Enter a number up to 8.")).to_be_visible()
    page.locator("#move-amount").fill("3")
    page.locator("#move-amount").press("Enter")
    expect(cell(page, "Vision")).to_have_text("5")
    expect(cell(page, "Speech")).to_have_text("9")
    expect(batch.get_by_text("Impact of this change")).to_be_visible()
    batch.get_by_role("button", name="Save all").click()
    expect(page.get_by_text("Quotas of 2 tenants updated")).to_be_visible()
    assert (cards_of("vision"), cards_of("speech")) == (5, 9)

    # By drag, and taken back before it is saved.
    row(page, "Speech").hover()
    row(page, "Speech").locator("[data-grip]").drag_to(row(page, "Vision"))
    expect(page.locator("#move-from")).to_have_value(row(page, "Speech").get_attribute("data-node") or "")
    page.locator("#move-amount").fill("1")
    page.locator("[data-move-apply]").click()
    expect(cell(page, "Vision")).to_have_text("6")
    batch.get_by_role("button", name="Discard changes").click()
    expect(batch).to_be_hidden()
    expect(cell(page, "Vision")).to_have_text("5")

    row(page, "Vision").locator("[data-tree-toggle]").press(" ")
    expect(row(page, "default")).to_be_visible()
    row(page, "Research").locator("[data-tree-toggle]").click()
    expect(row(page, "Vision")).to_be_hidden()
    expect(row(page, "default")).to_be_hidden()
    assert wrong == []
