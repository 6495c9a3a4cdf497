"""Checks of the log on a job's page while it is followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

AT_ONCE: Final = "".join(
    f'event: line\ndata: {{"task": "main-0", "at": "2999-01-01T00:00:00+00:00", "text": "{text}"}}\n\n'
    for text in ("printed at once", "printed at once as well")
)
ANSWER_AT_ONCE: Final = """(said) => {
    const ask = window.fetch
    const answer = (url) => String(url).includes("follow=true") && Promise.resolve(new Response(said))
    window.fetch = (url, ...rest) => answer(url) || ask(url, ...rest)
}"""
LOG: Final = "document.getElementById('log-lines')"


def steps_of(page: Page) -> list[int]:
    """Return the numbers of the steps that are shown."""
    texts = page.locator("#log-lines li span").all_inner_texts()
    return [int(found[1]) for text in texts if (found := re.match(r"step (\d+) ", text))]


def wait_for_lines(page: Page, many: int) -> None:
    """Wait for more lines than a given number."""
    page.wait_for_function("many => document.querySelectorAll('#log-lines li').length > many", arg=many + 3)


def search_lines(page: Page) -> None:
    """Search shows the lines that match, new ones included, and stays in the address."""
    page.get_by_label("Search in these lines").fill("step 20 ")
    expect(page.locator("#log-lines li:visible")).to_have_count(1)
    expect(page.locator("#log-lines mark")).to_have_text(["step 20 "])
    wait_for_lines(page, page.locator("#log-lines li").count())
    expect(page.locator("#log-lines li:visible")).to_have_count(1)
    assert "tab=logs" in page.url and "find=step" in page.url
    page.get_by_label("Search in these lines").fill("")


def save_lines(page: Page) -> None:
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert "main-0 step " in Path(saved.value.path()).read_text("utf-8")


def stay_further_up(page: Page) -> None:
    """New lines don't scroll a log whose reader has scrolled up."""
    page.wait_for_function(f"() => {LOG}.scrollHeight > {LOG}.clientHeight + 100")
    assert page.evaluate(f"{LOG}.scrollTop > 0"), "the end was in sight"
    page.evaluate(f"{LOG}.scrollTop = 0")
    wait_for_lines(page, len(steps_of(page)))
    assert page.evaluate(f"{LOG}.scrollTop") == 0


def show_lines_of_one_moment(page: Page) -> None:
    """All lines of the same moment are shown; the log then ends, and is no longer followed.

    The log ends before the state of the switch can be read, which `Locator.check` would do after its click.
    """
    said = AT_ONCE + 'event: end\ndata: {"code": "ENDED"}\n\n'
    page.evaluate(ANSWER_AT_ONCE, said)
    switch = page.get_by_role("switch", name="Follow")
    switch.click()
    expect(page.locator("#log-lines").get_by_text("printed at once")).to_have_count(2)
    expect(switch).not_to_be_checked()
