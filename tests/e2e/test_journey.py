"""The first fifteen minutes of a user, in a real browser on a running platform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks.support.deadlines import DEADLINE_FACTOR
from benchmarks.support.running import RunningPlatform, large_team, run_platform
from tests.e2e.live_pages import assert_pages_are_live
from tests.e2e.page_weight import assert_pages_are_light, watch_problems
from tests.fixtures.browser import chromium, chromium_path, page_of

pytestmark = pytest.mark.browser

OWN_PASSWORD = "my own long password 1"
# Simulated seconds: the seeded cluster runs 600 times as fast, so this lasts longer than the test.
LONG_RUN_S = 200_000
SOON_MS = 30_000 * DEADLINE_FACTOR


@pytest.fixture(scope="module")
def running(migrated_file: Path) -> Iterator[RunningPlatform]:
    chromium_path()  # skips the test before anything is started
    with run_platform(
        world=large_team(nodes=1, cards=1, speed=600, demo_speed=600), migrated=migrated_file
    ) as it:
        yield it


@pytest.fixture(scope="module")
def state(running: RunningPlatform) -> Any:
    """Return the browser storage of a signed-in user."""
    with page_of(running.url, soon_ms=SOON_MS) as opened:
        problems = watch_problems(opened)
        sign_in(opened, running.home)
        assert problems == []
        return opened.context.storage_state()


@pytest.fixture
def page(running: RunningPlatform, state: Any) -> Iterator[Page]:
    with page_of(running.url, soon_ms=SOON_MS, state=state) as opened:
        yield opened


def sign_in(page: Page, home: Path) -> None:
    """Sign in with the printed one-time password, which must be changed before any other page opens."""
    first = json.loads((home / "first-sign-in.json").read_text("utf-8"))
    assert first["password"] in (home / "up.log").read_text("utf-8")
    page.goto("/w/speech-lab/jobs")
    page.get_by_label("Username").fill(first["user"])
    page.get_by_label("Password").fill(first["password"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Change your password")).to_be_visible()
    page.get_by_label("Current password").fill(first["password"])
    page.get_by_label("New password", exact=True).fill(OWN_PASSWORD)
    page.get_by_label("Confirm new password").fill(OWN_PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Password changed.")).to_be_visible()


def submit(page: Page, name: str) -> None:
    page.goto("/w/speech-lab/jobs")
    page.get_by_role("link", name="Submit job").first.click()
    page.locator("#id_name").fill(name)
    page.locator("#id_run_s").fill(str(LONG_RUN_S))
    expect(page.get_by_text("Starts immediately")).to_be_visible()
    page.locator(".rail").get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


@pytest.mark.timeout(150)
def test_from_the_first_sign_in_to_a_cancelled_job(page: Page) -> None:
    problems = watch_problems(page)
    submit(page, "watched")
    page.evaluate("window.notReloaded = true")
    head = page.locator("#job-head")
    expect(head.get_by_text("Running", exact=True)).to_be_visible(timeout=SOON_MS)
    expect(page.locator("#timeline").get_by_text("Running: minimum number of tasks ready")).to_be_visible()
    expect(page.locator("#uses").get_by_text("of allocated compute")).to_be_visible(timeout=SOON_MS)
    assert page.evaluate("window.notReloaded"), "the page was refreshed in place"
    tabs = page.get_by_role("navigation", name="Parts of the job")
    tabs.get_by_role("link", name="Tasks").click()
    expect(page.locator("#tasks").get_by_role("link", name="gpu-")).to_be_visible()
    tabs.get_by_role("link", name="Metrics").click()
    line = page.locator("#chart-utilisation .scatterlayer path.js-line").first
    line.wait_for(state="attached", timeout=2 * SOON_MS)

    head.get_by_role("link", name="Clone").click()
    page.locator(".rail").get_by_role("button", name="Submit").click()
    head.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("You will lose:")).to_be_visible()
    dialog.get_by_role("button", name="Cancel job").click()
    expect(head.get_by_text("Canceled", exact=True)).to_be_visible(timeout=SOON_MS)

    page.goto("/w/speech-lab/jobs?state=running")
    expect(page.get_by_role("link", name="watched", exact=True)).to_be_visible()
    assert problems == []


@pytest.mark.timeout(150)
def test_pages_are_light_and_every_kind_of_chart_is_drawn(running: RunningPlatform, state: Any) -> None:
    with chromium() as browser:
        assert_pages_are_light(browser, running.url, state)


@pytest.mark.timeout(150)
def test_pages_are_live_within_two_seconds_and_say_when_they_are_not(
    running: RunningPlatform, state: Any
) -> None:
    with chromium() as browser:
        print(assert_pages_are_live(browser, running, state))
