"""The lists in the form of a new job, in a real browser: read again when its queue changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.builders import clusters, quotas, tenancy
from tests.e2e.page_weight import watch_problems
from tests.e2e.signed_in import OpenPage, signed_in_browser
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium_path
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.server]
FORM = "/w/vision/jobs/new"
LISTS = {
    "claims": ("List persistent volume claims", "has no namespace in cluster"),
    "startable": ("Find the largest jobs that start now", "Queue {queue}"),
}


@pytest.fixture(scope="module")
def open_page(module_on_postgres: PostgresServer) -> Iterator[OpenPage]:
    """A browser in which the admin of a workspace with two queues signs in."""
    chromium_path()  # nothing is started where there is none
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    vision = tenancy.workspace("vision", tenancy.folder("research"))
    for name in ("day", "night"):
        quotas.queue(cell, vision, [flavor], name=name, cards=6)
    tenancy.platform_admin("boss")
    with api_server(module_on_postgres) as address, signed_in_browser(address) as opening:
        yield opening


@pytest.fixture
def page(open_page: OpenPage) -> Iterator[Page]:
    """A page that shares nothing with those of other tests but the session."""
    with open_page() as opened:
        yield opened


@pytest.mark.timeout(240)
def test_what_was_read_for_a_queue_is_removed_with_it_and_can_be_read_again(page: Page) -> None:
    problems = watch_problems(page)
    page.goto(FORM)
    page.locator("details.fold summary").click()
    queue = page.locator("#job-form [name=queue]")
    for key, (button, text) in LISTS.items():
        place = page.locator(f"#{key}")
        for name in ("day", "night"):
            queue.select_option(name)
            expect(place).to_be_empty()
            page.get_by_role("button", name=button).click()
            expect(place).to_contain_text(text.format(queue=name))
            with page.expect_response("**/jobs/new/*queue=*"):
                page.get_by_role("button", name=button).click()  # it is still there, and reads again
            expect(place).to_contain_text(text.format(queue=name))
            if key == "claims":
                expect(place).to_contain_text(f"Clusters of queue {name}")
    assert not problems


@pytest.mark.timeout(240)
def test_an_answer_for_an_earlier_queue_is_not_shown(page: Page) -> None:
    page.goto(FORM)
    page.locator("details.fold summary").click()
    queue, place = page.locator("#job-form [name=queue]"), page.locator("#claims")
    queue.select_option("day")
    held = []
    page.route("**/jobs/new/claims?*", lambda route: held.append(route))
    button = page.get_by_role("button", name="List persistent volume claims")
    with page.expect_request("**/jobs/new/claims?*"):
        button.click()
    queue.select_option("night")
    page.unroute("**/jobs/new/claims?*")
    expect(button).to_be_enabled()
    button.click()
    expect(place).to_contain_text("Clusters of queue night")
    expect(place).not_to_contain_text("Clusters of queue day")
