"""`allotment bench interactive`: the time until each page of the console is interactive in a browser.

The installation is that of `bench lists`. Chromium opens each page with an empty cache; a page is interactive
at the end of the last long task (over 50 ms on the main thread) before the first second without one, and not
before its document is parsed. Browser, web process and database share the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.api.installation import WrongSize, run_installation
from benchmarks.lists.measure import run_report_worker
from benchmarks.lists.options import WORLD, add_options, read_size
from benchmarks.support.postgres import MissingProgram
from benchmarks.support.report import FigureRow, Report, print_report, read_limits

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_PAGES: Final[Mapping[str, Sequence[str]]] = {
    "operator": (
        *("/ops/overview", "/ops/jobs", "/ops/nodes", "/ops/nodes/{name}", "/ops/gpus", "/ops/gpus/{uuid}"),
        *("/ops/quotas", "/ops/quotas/tree", "/ops/quotas/charts", "/ops/queues", "/ops/tenants"),
        *("/ops/users", "/ops/requests", "/ops/efficiency", "/ops/reports", "/ops/alerts", "/ops/audit"),
    ),
    "member": (
        *("/w/{ws}/overview", "/w/{ws}/jobs", "/w/{ws}/jobs/{job}", "/w/{ws}/jobs/{job}?tab=metrics"),
        *("/w/{ws}/jobs/new", "/w/{ws}/notebooks", "/w/{ws}/quota", "/w/{ws}/usage"),
    ),
}
_OBSERVER: Final = """() => {
    window.longTaskEnd = 0
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longTaskEnd = task.startTime + task.duration
    }).observe({type: "longtask", buffered: true})
}"""
_QUIET: Final = """() => {
    const [page] = performance.getEntriesByType("navigation")
    return page.loadEventEnd > 0 && performance.now() - Math.max(page.loadEventEnd, longTaskEnd) > 1000
}"""
_TIMES: Final = """() => {
    const [page] = performance.getEntriesByType("navigation")
    const files = performance.getEntriesByType("resource").reduce((sum, file) => sum + file.transferSize, 0)
    return {
        interactive: Math.max(page.domContentLoadedEventEnd, longTaskEnd),
        "first byte": page.responseStart,
        parsed: page.domContentLoadedEventEnd,
        KiB: (page.transferSize + files) / 1024,
    }
}"""


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench interactive`; see `--help`."""
    parser = argparse.ArgumentParser(prog="allotment bench interactive", description=__doc__)
    add_options(parser, times=read_limits("interactive")["times"], of="page")
    options = parser.parse_args(arguments)
    try:
        return print_report(run(read_size(options), options.times, options.only, options.keep), options.json)
    except WrongSize as error:
        sys.stderr.write(f"{error}\n")
        return 2


def run(size: Mapping[str, int], times: int, only: str = "", folder: Path | None = None) -> Report:
    """Measure each page once for each of its readers. Raises: MissingProgram without Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (with the tools for tests alone)

    limit, begun = read_limits("interactive")["interactive_ms"], time.monotonic()
    program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if program is None:
        raise MissingProgram("Chromium", "apt-get install chromium, or set CHROMIUM to its path")

    def report_step(what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {what}\n")

    rows, latencies = [], []
    with (
        run_installation(size, 1, report_step, folder, world=WORLD) as made,
        run_report_worker(made),
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, account in made.world["readers"].items():
            state = _sign_in(browser, f"http://127.0.0.1:{made.ports[0]}", account)
            for path in (path for path in _PAGES[name] if only in path):
                address = f"http://127.0.0.1:{made.ports[0]}{path.format_map(made.world['names'])}"
                found = [_measure_page(browser, state, address) for _ in range(times + 1)][1:]
                beside = {key: median(each[key] for each in found) for key in found[0]}
                rows.append(FigureRow(f"{name}  {path}, ms", beside.pop("interactive"), limit, beside))
                report_step(f"{rows[-1].measured:7.0f} ms  {rows[-1].what}")
                latencies += [each["interactive"] / 1000 for each in found]
        browser.close()
    return Report(
        name="interactive",
        size={**size, "times": times},
        rows=rows,
        seconds=time.monotonic() - begun,
        rate=0.0,
        latencies_s=latencies,
    )


@contextmanager
def _open_page(browser: Browser, state: Any = None) -> Iterator[Page]:
    """Yield a browser page with an empty cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, storage_state=state)
    context.add_init_script(f"({_OBSERVER})()")
    try:
        yield context.new_page()
    finally:
        context.close()


def _sign_in(browser: Browser, address: str, account: Mapping[str, str]) -> Any:
    with _open_page(browser) as page:
        page.goto(f"{address}/login")
        page.fill("input[name=username]", account["username"])
        page.fill("input[name=password]", account["password"])
        page.press("input[name=password]", "Enter")
        page.wait_for_url(lambda url: "/login" not in url)
        return page.context.storage_state()


def _measure_page(browser: Browser, state: Any, address: str) -> dict[str, float]:
    """Return the page's milliseconds since the request, and the transferred bytes."""
    with _open_page(browser, state) as page:
        answer = page.goto(address)
        if answer is None or not answer.ok:
            raise RuntimeError(f"{address} was answered {answer and answer.status}")
        page.wait_for_function(_QUIET, timeout=60_000)
        found: dict[str, float] = page.evaluate(_TIMES)
        return found
