"""Measures how soon a page shows a change, reports being stale, and is live after an outage or sleep."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, Page, expect

from benchmarks.support.deadlines import DEADLINE_FACTOR
from benchmarks.support.running import RunningPlatform
from tests.e2e.page_weight import first_visit
from tests.fixtures.wait import wait_until

WITHIN_S: Final = 2.0 * DEADLINE_FACTOR
JOBS: Final = "/w/speech-lab/jobs"
_STALE: Final = "Stale since "


def measure(condition: Callable[[], Any], what: str) -> float:
    """Wait until a condition holds, and return how long that took."""
    began = time.monotonic()
    wait_until(condition, what, within_s=30, every_s=0.02)
    return time.monotonic() - began


def mark(page: Page) -> str:
    return page.locator("[data-live-mark]").first.inner_text()


def is_live(page: Page) -> bool:
    return mark(page) == "Live"


def wait_for_stream(page: Page) -> None:
    """Open the list of jobs, and wait until its stream has sent a beat."""
    with page.expect_response(lambda answer: answer.url.endswith("/live")) as begun:
        page.goto(JOBS)
    assert begun.value.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert is_live(page)


def assert_pages_are_live(browser: Browser, running: RunningPlatform, state: Any) -> dict[str, float]:
    """Check each case against its time limit; returns the measured times, in seconds."""
    measured: dict[str, float] = {}
    with first_visit(browser, running.url, state) as (page, _problems):
        page.set_viewport_size({"width": 1280, "height": 900})
        wait_for_stream(page)
        measured["change"] = _change(page)
        measured["network cut"], measured["network back"] = _cut_network(page)
        measured["server gone"], measured["server back"] = _kill_server(page, running)
        assert page.evaluate("window.notReloaded"), "the page was refreshed in place"
    with first_visit(browser, running.url, state) as (page, _problems):
        measured["sleep"] = _sleep(page)
    late = {what: took for what, took in measured.items() if took > WITHIN_S}
    assert late == {}, measured
    return measured


def _change(page: Page) -> float:
    """A job that is submitted elsewhere appears in the list, which refreshes by itself every ten seconds."""
    page.evaluate("window.notReloaded = true")
    token = page.evaluate("JSON.parse(document.body.getAttribute('hx-headers'))['X-CSRFToken']")
    job = {"name": "seen-soon", "roles": [{"resources": {"cpu": 1, "memory": "1Gi"}}]}
    answer = page.request.post(
        "/api/v1/workspaces/speech-lab/jobs",
        data=job,
        headers={"X-CSRFToken": token, "Referer": page.url, "Idempotency-Key": "seen-soon"},
    )
    assert answer.ok, answer.text()
    return measure(
        lambda: page.get_by_role("link", name="seen-soon", exact=True).count(), "the job is in the list"
    )


def _cut_network(page: Page) -> tuple[float, float]:
    """The page shows since when it is stale, and is live when the network is back."""
    cut_at = datetime.now(UTC)
    page.context.set_offline(True)
    told = measure(lambda: mark(page).startswith(_STALE), "the page says that it is stale")
    since = datetime.strptime(mark(page).removeprefix(_STALE), "%H:%M:%S").time()  # noqa: DTZ007 (a clock time)
    assert since <= cut_at.time() or cut_at.hour == 0
    expect(page.get_by_role("status").filter(has_text="Last updated")).to_be_visible()
    # Longer than the longest wait between two tries.
    page.wait_for_timeout(6000)
    assert mark(page).startswith(_STALE)
    page.context.set_offline(False)
    back = measure(lambda: is_live(page), "the page is live again")
    expect(page.get_by_role("status").filter(has_text="Last updated")).to_have_count(0)
    return told, back


def _kill_server(page: Page, running: RunningPlatform) -> tuple[float, float]:
    """The server is killed and restarted."""
    gone = running.process_ids()["web"]
    os.kill(gone, signal.SIGKILL)
    told = measure(lambda: mark(page).startswith(_STALE), "the page says that it is stale")
    measure(lambda: _answers(running.url), "the server is back")
    return told, measure(lambda: is_live(page), "the page is live again")


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/livez", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def _sleep(page: Page) -> float:
    """A laptop was closed for ten minutes: timers have not run, and the clock is ten minutes ahead."""
    page.clock.install()
    wait_for_stream(page)
    page.clock.run_for(1500)
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if "part=rows" in request.url else None)
    page.clock.fast_forward(600_000)

    def fetched() -> bool:
        page.wait_for_timeout(10)  # events are handled while Playwright waits
        return bool(seen)

    return measure(fetched, "the list is fetched after sleep")
