"""The list of jobs in a real browser: filters, columns, selected rows, details, and all of it on a phone."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from typing import Final

import pytest
from django.db.models import QuerySet
from playwright.sync_api import Page, expect

from clusters.models import Cell, Flavor
from foundation.core import clock
from scheduling.models import Job, JobState
from tenants.models import User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.e2e.page_weight import watch_problems
from tests.e2e.signed_in import OpenPage, signed_in_browser
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium_path
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.server]
_NUMBERS: Final = itertools.count(1)


@pytest.fixture(scope="module")
def open_page(module_on_postgres: PostgresServer) -> Iterator[OpenPage]:
    """A browser in which the platform admin is signed in, and a pool of nodes."""
    chromium_path()  # nothing is started where there is none
    clusters.flavor(clusters.cluster(clusters.cell()))
    jobs.priority_class()
    tenancy.platform_admin("boss")
    with api_server(module_on_postgres) as address, signed_in_browser(address) as opening:
        yield opening


@pytest.fixture
def path(open_page: OpenPage) -> str:
    """The list of a workspace of this test alone, with thirty pending jobs and one that ended."""
    slug = f"vision-{next(_NUMBERS)}"
    queue = quotas.queue(Cell.unscoped.get(), tenancy.workspace(slug), [Flavor.unscoped.get()], cards=6)
    boss = User.objects.get(username="boss")
    for number in range(30):
        jobs.job(queue, boss, f"{'train' if number % 3 else 'eval'}-{number:02}")
    jobs.job(queue, boss, "ended", state=JobState.SUCCEEDED, finished_at=clock.now())
    return f"/w/{slug}/jobs"


@pytest.fixture
def page(open_page: OpenPage) -> Iterator[Page]:
    """A page that shares nothing with those of other tests but the session."""
    with open_page() as opened:
        yield opened


def stored_jobs(path: str) -> QuerySet[Job]:
    return Job.unscoped.filter(workspace__slug=path.split("/")[2])


def names(page: Page) -> list[str]:
    return page.locator("table.listing td.lead > a").all_inner_texts()


def choose(page: Page, *chosen: str) -> None:
    for name in chosen:
        page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()


@pytest.mark.timeout(240)
def test_a_filter_is_in_the_address_and_a_file_has_the_same_list(page: Page, path: str) -> None:
    problems = watch_problems(page)
    page.goto(path)
    expect(page.get_by_text("31 items · page 1 of 2")).to_be_visible()

    # A filter is built with the keyboard alone; its address leads to the same list again.
    page.get_by_text("Add filter", exact=True).first.press("Enter")
    page.get_by_role("combobox", name="Field").select_option("name")
    page.get_by_role("combobox", name="Operator").select_option("=^")
    page.get_by_role("textbox", name="Value").fill("eval")
    page.get_by_role("textbox", name="Value").press("Enter")
    expect(page.get_by_text("Name starts with eval")).to_be_visible()
    found = names(page)
    assert len(found) == 10 and all(name.startswith("eval") for name in found)
    page.reload()
    assert names(page) == found and "filterBy=" in page.url
    page.goto(page.url + "&sort=name")
    assert names(page) == sorted(found)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    text = download.value.path().read_text("utf-8-sig")
    assert [row["Name"] for row in csv.DictReader(text.splitlines())] == names(page)
    assert problems == []


@pytest.mark.timeout(180)
def test_columns_are_kept_and_details_open_beside_the_list(page: Page, path: str) -> None:
    problems = watch_problems(page)
    page.goto(path)

    # Columns and rows per page are kept, whatever the address.
    page.get_by_text("Columns", exact=True).first.click()
    page.get_by_role("checkbox", name="Queue").uncheck()
    page.get_by_role("checkbox", name="Attempts").check()
    page.get_by_label("Rows per page").select_option("10")
    page.get_by_role("button", name="Apply").click()
    for address in (page.url, f"{path}?q=a"):
        page.goto(address)
        heads = page.locator("table.listing th").all_inner_texts()
        assert "Attempts" in heads and "Queue" not in heads
    page.goto(path)
    expect(page.get_by_text("31 items · page 1 of 4")).to_be_visible()

    # Details of a row, opened and closed from the keyboard; the focus comes back.
    menu = page.get_by_label("Actions for train-29", exact=True)
    menu.press("Enter")
    page.get_by_role("link", name="Show details").first.press("Enter")
    expect(page.get_by_role("heading", name="train-29")).to_be_focused()
    assert re.search(r"[?&]show=[0-9a-f-]{36}", page.url)
    panel = page.get_by_role("complementary", name="train-29")
    expect(panel.get_by_text("Preemptible")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(menu).to_be_focused()
    assert "show=" not in page.url
    assert problems == []


@pytest.mark.timeout(180)
def test_an_action_on_one_job_asks_first_and_returns_to_the_list(page: Page, path: str) -> None:
    problems = watch_problems(page)
    page.goto(f"{path}?q=train&sort=name")
    menu = page.get_by_label("Actions for train-01", exact=True)
    dialog = page.get_by_role("dialog")
    button = page.get_by_role("button", name="Cancel job").first

    # By the keyboard alone: asked, refused, and the focus is where it was.
    menu.press("Enter")
    button.press("Enter")
    expect(dialog.get_by_text("Queue position held for")).to_be_visible()
    expect(dialog.get_by_role("button", name="Keep job")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(menu).to_be_focused()

    menu.press("Enter")
    button.press("Enter")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_text("Canceling train-01")).to_be_visible()
    assert page.url.endswith(f"{path}?q=train&sort=name")
    assert stored_jobs(path).get(name="train-01").state == JobState.CANCELLED

    # In the details beside the list, and for a job that ended meanwhile: the list shows it as it is now.
    page.get_by_label("Actions for train-02", exact=True).click()
    page.get_by_role("link", name="Show details").first.click()
    page.get_by_role("complementary").get_by_role("button", name="Edit tags").click()
    dialog.get_by_label("Tags, separated by commas").fill("baseline")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Tags of train-02 updated")).to_be_visible()
    page.goto(f"{path}?q=train-04")
    stored_jobs(path).filter(name="train-04").update(state=JobState.FAILED, finished_at=clock.now())
    page.get_by_label("Actions for train-04", exact=True).click()
    page.get_by_role("button", name="Suspend").first.click()
    expect(page.get_by_role("row", name="train-04")).to_contain_text("Failed")
    expect(dialog).to_have_count(0)
    assert problems == []


@pytest.mark.timeout(180)
def test_an_action_on_several_jobs_has_a_result_for_each(page: Page, path: str) -> None:
    problems = watch_problems(page)
    page.goto(f"{path}?pageSize=50")
    # One of the three can't be canceled.
    bar = page.locator("[data-batch]")
    expect(bar).to_be_hidden()
    choose(page, "train-01", "train-02", "ended")
    expect(bar.get_by_text("3 selected")).to_be_visible()
    bar.get_by_role("button", name="Cancel jobs").click()
    expect(page.get_by_text("Queue position held for").first).to_be_visible()
    page.get_by_role("button", name="Cancel jobs").click()
    expect(page.get_by_text("Done for 2 of 3. The others are unchanged.")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("ended.*already finished"))).to_be_visible()
    cancelled = stored_jobs(path).filter(state=JobState.CANCELLED).values_list("name", flat=True)
    assert sorted(cancelled) == ["train-01", "train-02"]
    page.get_by_role("link", name="Back to the list").click()
    assert page.url.endswith("?pageSize=50")

    # All rows at once, and none again.
    page.get_by_role("checkbox", name="Select all rows").check()
    expect(bar.get_by_text("31 selected")).to_be_visible()
    bar.get_by_role("button", name="Clear selection").click()
    expect(bar).to_be_hidden()
    assert problems == []


@pytest.mark.timeout(180)
def test_a_list_on_a_phone_is_sorted_and_stays_within_the_screen(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path)
    page.get_by_label("Sort by").select_option("name")
    page.wait_for_url(re.compile("sort=name"))
    found = names(page)
    assert len(found) == 20 and found == sorted(found)
    choose(page, "ended")
    expect(page.locator("[data-batch]").get_by_text("1 selected")).to_be_visible()
    page.get_by_label("Actions for ended", exact=True).click()
    page.get_by_role("link", name="Show details").first.click()
    expect(page.get_by_role("heading", name="ended")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
