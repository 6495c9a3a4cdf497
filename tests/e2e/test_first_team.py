"""From an empty installation to a running job of a team of three, in the browser, with clicks counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.support.deadlines import DEADLINE_FACTOR
from benchmarks.support.ports import free_port
from benchmarks.support.running import wait_ready
from tests.fixtures.browser import chromium_path, page_of
from tests.fixtures.programs import wait_for_end
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.browser

PASSWORD = "a long password 1"
SOON_MS = 60_000 * DEADLINE_FACTOR
CLICKS_MAX = 30
TEAM_CLICKS_MAX = 12


@dataclass
class Hand:
    """A user of the console: each press of a button or link, and each field that is typed in,
    counts as one click."""

    page: Page
    clicks: list[str] = field(default_factory=list)

    def press(self, target: Locator, what: str) -> None:
        self.clicks.append(what)
        target.click()

    def type(self, target: Locator, text: str, what: str) -> None:
        self.clicks.append(f"type {what}")
        target.fill(text)


@dataclass(frozen=True)
class FirstStart:
    """The output of the terminal once the platform is ready."""

    text: str

    def find_value(self, label: str) -> str:
        """Return the word after a label."""
        return self.text.split(label)[1].split()[0]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[FirstStart]:
    """Start `ALLOTMENT_DEMO=off allotment up` in an empty home; yield its output."""
    chromium_path()  # skips the test before anything is started
    home, port = tmp_path_factory.mktemp("empty"), free_port()
    shutil.copyfile(migrated_file, home / "allotment.sqlite3")
    environment = {**os.environ, "ALLOTMENT_HOME": str(home), "ALLOTMENT_DEMO": "off", "PORT": str(port)}
    output = home / "up.log"
    with output.open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "allotment.cli", "up"], env=environment, stdout=log, stderr=log
        )
    try:
        wait_ready(f"http://127.0.0.1:{port}/readyz/platform", up, output)
        wait_until(lambda: "Ctrl-C stops everything." in output.read_text(), "the banner is printed")
        yield FirstStart(output.read_text())
    finally:
        up.terminate()
        try:
            wait_for_end(up, within_s=40)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()


@pytest.fixture
def address(platform: FirstStart) -> str:
    return platform.find_value("Allotment is running at")


@pytest.fixture
def page(platform: FirstStart, address: str) -> Iterator[Page]:
    with page_of(address, soon_ms=SOON_MS) as opened:
        opened.goto("/login")
        opened.get_by_label("Username").fill(platform.find_value("sign in as"))
        opened.get_by_label("Password").fill(platform.find_value("one-time password"))
        opened.get_by_role("button", name="Sign in").click()
        opened.get_by_label("Current password").fill(platform.find_value("one-time password"))
        opened.get_by_label("New password", exact=True).fill(PASSWORD)
        opened.get_by_label("Confirm new password").fill(PASSWORD)
        opened.get_by_role("button", name="Change password").click()
        expect(opened.get_by_text("Password changed.")).to_be_visible()
        opened.goto("/")
        opened.wait_for_url("**/ops/overview")
        yield opened


def add_cluster(hand: Hand) -> None:
    page = hand.page
    setup = page.locator("#setup")
    expect(setup.locator("li")).to_have_count(4, timeout=SOON_MS)
    hand.press(setup.get_by_role("link", name="Add cluster"), "add cluster")
    hand.press(page.locator("#new-cluster").get_by_role("button", name="Add cluster"), "add it")
    expect(page.get_by_text("16 GPUs on 2 nodes")).to_be_visible(timeout=SOON_MS)
    hand.press(page.get_by_role("button", name="Create pools"), "create pools")
    expect(page.get_by_text("All GPU nodes belong to a pool.")).to_be_visible(timeout=SOON_MS)


def create_team(hand: Hand, name: str, gpus: str, people: tuple[str, ...]) -> None:
    """Create a team, from any page that shows the button."""
    page = hand.page
    hand.press(page.get_by_role("link", name="New team").first, "new team")
    hand.type(page.locator("#id_name"), name, "name")
    for at, person in enumerate(people):
        hand.type(page.locator(f"#id_p{at}-username"), person, "member")
    hand.type(page.locator('[name$="-gpus"]').first, gpus, "GPUs")
    review = page.locator("#team-review")
    expect(review.get_by_text("Ready to create")).to_be_visible(timeout=SOON_MS)
    expect(review.get_by_text("A job with 1 GPU can start.")).to_be_visible(timeout=SOON_MS)
    expect(review.get_by_text(f"Invited: {', '.join(people)}")).to_be_visible(timeout=SOON_MS)
    hand.press(page.locator(".rail-actions").get_by_role("button", name="Create team"), "create team")
    expect(page.get_by_text(f"Team {name} created")).to_be_visible(timeout=SOON_MS)


def run_sample_job(hand: Hand) -> None:
    page = hand.page
    hand.press(page.get_by_role("link", name="Open sample job"), "open sample job")
    expect(page.get_by_text("Starts immediately")).to_be_visible(timeout=SOON_MS)
    hand.press(page.locator(".rail").get_by_role("button", name="Submit"), "submit")
    expect(page.locator("#job-head").get_by_text("Running", exact=True)).to_be_visible(timeout=SOON_MS)


@pytest.mark.timeout(420)
def test_from_an_empty_installation_to_a_running_job(
    page: Page, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    hand = Hand(page)
    add_cluster(hand)
    before_team = len(hand.clicks)
    create_team(hand, "Vision", "8", ("mei", "tomas", "ana"))
    link = page.locator("#link-1").inner_text()
    hand.press(page.get_by_role("link", name="Go to workspace"), "go to workspace")
    team = len(hand.clicks) - before_team
    run_sample_job(hand)
    total = len(hand.clicks)
    with capsys.disabled():
        print(f"\nclicks: {total} in all, {team} for the team: {', '.join(hand.clicks)}")
    assert total <= CLICKS_MAX and team <= TEAM_CLICKS_MAX

    page.goto("/ops/overview")
    expect(page.get_by_role("heading", name="Cluster overview")).to_be_visible(timeout=SOON_MS)
    expect(page.locator("#setup")).to_have_count(0, timeout=SOON_MS)

    # A second team in the same installation, and a member who joins by a link.
    hand = Hand(page)
    hand.press(page.locator(".side").get_by_role("link", name="Tenants"), "tenants")
    create_team(hand, "Speech", "4", ("lin", "amara", "jonas"))
    with capsys.disabled():
        print(f"clicks: {len(hand.clicks)} for a team in a set-up installation: {', '.join(hand.clicks)}")
    assert len(hand.clicks) <= TEAM_CLICKS_MAX

    browser = page.context.browser
    assert browser is not None
    own = browser.new_context(base_url=address).new_page()
    own.set_default_timeout(SOON_MS)
    own.goto(link)
    own.get_by_label("New password", exact=True).fill("quite another 22")
    own.get_by_label("Confirm new password").fill("quite another 22")
    own.get_by_role("button", name="Set password").click()
    own.wait_for_url("**/w/vision/overview")
    expect(own.get_by_role("link", name="first-job").first).to_be_visible(timeout=SOON_MS)
    assert problems == []
