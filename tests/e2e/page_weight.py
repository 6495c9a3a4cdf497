"""Measures what a browser fetches for a page: with charts and without, at the first visit and at the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect

from benchmarks.support.deadlines import DEADLINE_FACTOR

KB: Final = 1000
SOON_MS: Final = 60_000 * DEADLINE_FACTOR
FIRST_WITH_CHARTS, FIRST_WITHOUT, NEXT = 900 * KB, 250 * KB, 100 * KB
OVERVIEW: Final = "/w/speech-lab/overview"
MOST_CHARTS: Final = ("/ops/overview", "/ops/nodes/gpu-a01")
JOBS: Final = "/w/speech-lab/jobs"
LINKED: Final = {"labels": ["a", "b", "c"], "parents": ["", "a", "a"], "values": [2, 1, 1]}
SHAPES: Final[dict[str, dict[str, Any]]] = {
    "scatter": {"x": [1, 2], "y": [1, 2]},
    "bar": {"x": [3, 4], "base": [1, 2], "y": ["one", "two"], "orientation": "h"},
    "heatmap": {"z": [[1, 2], [3, 4]]},
    "histogram": {"x": [1, 1, 2]},
    "pie": {"labels": ["a", "b"], "values": [1, 2]},
    "sankey": {"node": {"label": ["a", "b"]}, "link": {"source": [0], "target": [1], "value": [1]}},
    "sunburst": LINKED,
    "treemap": LINKED,
}
"""A small figure of every kind that the console's plotly.js draws; the bars are a timeline."""
DRAW: Final = """async ([type, rest]) => {
    const place = document.createElement("div");
    document.body.append(place);
    await Plotly.newPlot(place, [{ type, ...rest }], { width: 400, height: 300 });
    const shapes = place.querySelectorAll(".plot-container path, .plot-container image").length;
    const svg = await Plotly.toImage(place, { format: "svg", width: 400, height: 300 });
    place.remove();
    return [shapes, svg.slice(0, 18)];
}"""


def watch_problems(page: Page) -> list[str]:
    """Collect the problems of the page from here on; a breach of the content security policy is an error."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    return problems


class Traffic:
    """The bytes that were transferred for a page, headers included; cached answers count as none."""

    def __init__(self, page: Page) -> None:
        self._came: dict[str, float] = {}
        watched = page.context.new_cdp_session(page)
        watched.on("Network.dataReceived", self._add)
        watched.on("Network.loadingFinished", self._finish)
        watched.send("Network.enable")

    def _add(self, event: dict[str, Any]) -> None:
        # An answer without end, such as a stream of events, reports no other size.
        self._came[event["requestId"]] = self._came.get(event["requestId"], 0) + event["encodedDataLength"]

    def _finish(self, event: dict[str, Any]) -> None:
        self._came[event["requestId"]] = event["encodedDataLength"]

    def take(self) -> float:
        """Return the bytes since the last call."""
        came, self._came = sum(self._came.values()), {}
        return came


@contextmanager
def first_visit(browser: Browser, url: str, state: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a page for a signed-in user in a browser with an empty cache, and collect console errors."""
    context = browser.new_context(base_url=url, storage_state=state)
    page = context.new_page()
    page.set_default_timeout(SOON_MS)
    yield page, watch_problems(page)
    context.close()


def visit(page: Page, path: str) -> None:
    page.goto(path)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # draws the charts below the screen as well
    for chart in page.locator("[data-chart]").all():
        expect(chart).to_have_attribute("data-drawn", "", timeout=SOON_MS)


def assert_pages_are_light(browser: Browser, url: str, state: Any) -> None:
    """Visit a page with charts and one without, each twice, and draw a chart of every kind."""
    with first_visit(browser, url, state) as (page, problems):
        traffic = Traffic(page)
        visit(page, OVERVIEW)
        assert page.locator("[data-chart]").count() > 0
        assert 0 < traffic.take() < FIRST_WITH_CHARTS
        visit(page, OVERVIEW)
        assert 0 < traffic.take() < NEXT
        for path in MOST_CHARTS:
            visit(page, path)
            assert page.locator("[data-chart]").count() > 4
            assert 0 < traffic.take() < NEXT
        drawn = {kind: page.evaluate(DRAW, [kind, shape]) for kind, shape in SHAPES.items()}
        assert [kind for kind, (shapes, _) in drawn.items() if not shapes] == []
        assert {svg for _, svg in drawn.values()} == {"data:image/svg+xml"}
        assert problems == []

    with first_visit(browser, url, state) as (page, problems):
        traffic = Traffic(page)
        visit(page, JOBS)
        assert page.locator("[data-chart]").count() == 0
        assert 0 < traffic.take() < FIRST_WITHOUT
        visit(page, JOBS)
        assert 0 < traffic.take() < NEXT
        assert problems == []
