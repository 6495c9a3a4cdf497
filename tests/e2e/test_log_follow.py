"""A job's log is followed in a real browser: live, through a lost connection, off and on, to its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.support.running import RunningPlatform, large_team, run_platform
from tests.e2e.test_journey import SOON_MS, sign_in, submit
from tests.fixtures.browser import chromium_path, page_of

pytestmark = pytest.mark.browser

AT_ONCE = "".join(
    f'event: line\ndata: {{"task": "main-0", "at": "2999-01-01T00:00:00+00:00", "text": "{text}"}}\n\n'
    for text in ("printed at once", "printed at once as well")
)
LOG = "document.getElementById('log-lines')"


@pytest.fixture
def running(migrated_file: Path) -> Iterator[RunningPlatform]:
    chromium_path()  # nothing is started where there is none
    with run_platform(
        world=large_team(nodes=1, cards=1, speed=600, demo_speed=600), migrated=migrated_file
    ) as it:
        # Three lines a second, so that what is printed while the server is down can be caught up with.
        slower = [sys.executable, "-m", "allotment.cli", "simulate", "speed", "30", "--cluster", "demo"]
        subprocess.run(slower, env=it.environment, check=True)
        yield it


@pytest.fixture
def page(running: RunningPlatform) -> Iterator[Page]:
    with page_of(running.url, soon_ms=2 * SOON_MS) as opened:
        yield opened


def steps(page: Page) -> list[int]:
    """The numbers of the steps that are shown."""
    texts = page.locator("#log-lines li span").all_inner_texts()
    return [int(found[1]) for text in texts if (found := re.match(r"step (\d+) ", text))]


def more(page: Page, than: int) -> None:
    """Wait for lines that were not there."""
    page.wait_for_function("many => document.querySelectorAll('#log-lines li').length > many", arg=than + 3)


def search_lines(page: Page) -> None:
    """A search shows the lines that match, also of those that come, and stays in the address."""
    page.get_by_label("Search in these lines").fill("step 20 ")
    expect(page.locator("#log-lines li:visible")).to_have_count(1)
    expect(page.locator("#log-lines mark")).to_have_text(["step 20 "])
    more(page, len(steps(page)))
    expect(page.locator("#log-lines li:visible")).to_have_count(1)
    assert "tab=logs" in page.url and "find=step" in page.url
    page.get_by_label("Search in these lines").fill("")


def save_lines(page: Page) -> None:
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert "main-0 step " in Path(saved.value.path()).read_text("utf-8")


@pytest.mark.timeout(180)
def test_a_log_is_followed_through_a_lost_connection_to_its_end(page: Page, running: RunningPlatform) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    sign_in(page, running.home)
    submit(page, "told")
    expect(page.locator("#job-head").get_by_text("Running", exact=True)).to_be_visible()

    page.get_by_role("link", name="Logs").click()
    state, switch = page.locator("[data-log-state]"), page.get_by_role("switch", name="Follow")
    switch.check()
    expect(state).to_have_text("Following")
    more(page, 0)

    os.kill(running.process_ids()["web"], signal.SIGKILL)
    expect(state).to_have_text(re.compile("Disconnected at"))
    expect(state).to_have_text("Following", timeout=2 * SOON_MS)
    more(page, len(steps(page)))
    shown = steps(page)
    assert shown == list(range(20, shown[-1] + 20, 20)), "each line once, and none is missing"

    # Whoever reads further up is left there.
    page.wait_for_function(f"() => {LOG}.scrollHeight > {LOG}.clientHeight + 100")
    assert page.evaluate(f"{LOG}.scrollTop > 0"), "the end was in sight"
    page.evaluate(f"{LOG}.scrollTop = 0")
    more(page, len(steps(page)))
    assert page.evaluate(f"{LOG}.scrollTop") == 0

    with page.expect_event("requestfailed", lambda request: "follow=true" in request.url):
        switch.uncheck()
    expect(state).to_have_text("")
    switch.check()
    more(page, len(steps(page)))

    search_lines(page)

    # Another choice of lines is followed in turn.
    page.get_by_label("Task", exact=True).select_option("main-0")
    expect(page.locator("#log-lines")).to_have_attribute("data-task", "main-0")
    expect(page.get_by_role("switch", name="Follow")).to_be_checked()
    more(page, len(steps(page)))
    assert "task=main-0" in page.url
    save_lines(page)

    other = page.context.new_page()
    other.goto(page.url)
    other.locator("#job-head").get_by_role("button", name="Cancel").click()
    other.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(state).to_have_text("All containers terminated.")

    # Lines of the same moment are shown, all of them.
    said = AT_ONCE + 'event: end\ndata: {"code": "ENDED"}\n\n'
    page.route(
        re.compile("follow=true"), lambda route: route.fulfill(content_type="text/event-stream", body=said)
    )
    switch.check()
    expect(page.locator("#log-lines").get_by_text("printed at once")).to_have_count(2)
    assert wrong == []
