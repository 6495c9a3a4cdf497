"""A cluster is unreachable for ten minutes: a banner, a gap in the charts, no zero; then it is live again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.support.running import RunningPlatform, large_team, run_platform
from tests.e2e.test_journey import SOON_MS, sign_in, submit
from tests.fixtures.browser import chromium_path, page_of
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.browser
PAGE: Final = "/ops/overview?cluster=demo"
CHART: Final = "/ops/overview/charts/allocation?cluster=demo&range=1h"
AWAY: Final = timedelta(minutes=10)


@pytest.fixture
def running(migrated_file: Path) -> Iterator[RunningPlatform]:
    chromium_path()  # nothing is started where there is none
    with run_platform(
        world=large_team(nodes=1, cards=1, speed=600, demo_speed=600), migrated=migrated_file
    ) as it:
        yield it


@pytest.fixture
def page(running: RunningPlatform) -> Iterator[Page]:
    with page_of(running.url, soon_ms=2 * SOON_MS) as opened:
        yield opened


def tile(page: Page, label: str) -> Locator:
    """The tile of a label, which holds its value."""
    return page.locator(".tile").filter(has_text=label)


def points(page: Page) -> list[tuple[datetime, float | None]]:
    """Return the values that the chart draws as used, in order of time."""
    figure: dict[str, Any] = page.request.get(CHART).json()["figure"]
    used = [line for line in figure["data"] if line.get("name") == "used"]
    return [
        (datetime.fromisoformat(at), value)
        for line in used
        for at, value in zip(line["x"], line["y"], strict=True)
    ]


@pytest.mark.timeout(420)
def test_a_cluster_that_is_away_is_a_gap_and_no_zero(page: Page, running: RunningPlatform) -> None:
    def run(*words: str) -> None:
        subprocess.run([sys.executable, "-m", *words], env=running.environment, check=True)

    sign_in(page, running.home)
    submit(page, "watched")
    expect(page.locator("#job-head").get_by_text("Running", exact=True)).to_be_visible(timeout=3 * SOON_MS)
    page.goto(PAGE)
    page.evaluate("window.notReloaded = true")
    value = tile(page, "GPU utilization")
    expect(value).to_contain_text(re.compile(r"[0-9.]+ %"), timeout=3 * SOON_MS)
    banner = page.get_by_role("status").filter(has_text="Cluster demo is unreachable")
    expect(banner).to_have_count(0)
    wait_until(
        lambda: [value for _at, value in points(page) if value],
        "the chart has data",
        within_s=3 * SOON_MS / 1000,
    )

    run("allotment.cli", "simulate", "api", "fail", "--cluster", "demo")
    # The page is not reloaded: it says so by itself, and what was measured last is not what is.
    expect(banner).to_be_visible(timeout=3 * SOON_MS)
    expect(value).to_contain_text("–", timeout=3 * SOON_MS)
    expect(value).to_contain_text("No data in the last 30 s")
    expect(value).not_to_contain_text("0 %")
    run("tests.e2e.age_outage", "demo", str(int(AWAY.total_seconds())))

    run("allotment.cli", "simulate", "api", "recover", "--cluster", "demo")
    expect(banner).to_have_count(0, timeout=3 * SOON_MS)
    expect(value).to_contain_text(re.compile(r"[0-9.]+ %"), timeout=3 * SOON_MS)
    assert page.evaluate("window.notReloaded"), "the page was refreshed in place"

    wait_until(lambda: points(page)[-1][1] is not None, "the line has come back", within_s=3 * SOON_MS / 1000)
    drawn = points(page)
    known = [at for at, value in drawn if value is not None]
    longest, begin = max((later - earlier, earlier) for earlier, later in pairwise(known))
    assert longest >= AWAY, "nothing is drawn for the time of the outage"
    inside = [value for at, value in drawn if begin < at < begin + longest]
    assert inside and set(inside) == {None}, "the line is broken there, and no zero is drawn"
    notes = page.locator("#chart-ops-allocation .chart-notes")
    expect(notes).to_contain_text("No data: Cluster demo unreachable", timeout=3 * SOON_MS)
    days = page.evaluate(
        "['2026-03-01T22:31', '2026-03-02T14:05'].map((e) => allotment.writeStretch('2026-03-01T14:31', e))"
    )
    assert days == ["2026-03-01 14:31–22:31", "2026-03-01 14:31 – 2026-03-02 14:05"]
