"""Users of one running platform, each signed in in a browser context of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from benchmarks.support.deadlines import DEADLINE_FACTOR

SOON_MS: Final = 60_000 * DEADLINE_FACTOR
LONG_RUN_S: Final = 200_000
"""Simulated seconds; longer than all journeys together."""


@dataclass(slots=True)
class People:
    """The browser contexts of all users that have signed in so far; `problems` are errors in their pages."""

    browser: Browser
    url: str
    problems: list[str] = field(default_factory=list)
    _contexts: dict[str, BrowserContext] = field(default_factory=dict)

    def open_page(self, user: str) -> Page:
        """Return a new page of the user, who signs in on the first one."""
        known = self._contexts.get(user)
        if known is not None:
            return self._watched(known.new_page())
        size = {"width": 1280, "height": 900}
        context = self.browser.new_context(base_url=self.url, viewport=size)  # type: ignore[arg-type]
        context.set_default_timeout(SOON_MS)
        self._contexts[user] = context
        page = self._watched(context.new_page())
        page.goto("/login")
        page.get_by_label("Username").fill(user)
        page.get_by_label("Password").fill("a long password 1")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(re.compile("/(w|ops|account)/?"))
        return page

    def close_pages(self) -> None:
        """Close all pages; all users stay signed in."""
        for context in self._contexts.values():
            for page in context.pages:
                page.close()

    def _watched(self, page: Page) -> Page:
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        return page


def head(page: Page) -> Locator:
    """The head of a job's page, with its state."""
    return page.locator("#job-head")


def fill_job(page: Page, workspace: str, name: str, cards: int, *, priority: str = "normal") -> None:
    """Open the form of a new job and fill it in."""
    page.goto(f"/w/{workspace}/jobs/new")
    page.locator("#id_name").fill(name)
    page.locator("#id_roles-0-cards").fill(str(cards))
    page.locator("#id_priority_class").select_option(priority)
    page.locator("#id_run_s").fill(str(LONG_RUN_S))


def press_submit(page: Page) -> None:
    """Send the form that is open, and wait for the page of the job."""
    name = page.locator("#id_name").input_value()
    page.locator(".rail").get_by_role("button", name="Submit").click()
    expect(head(page).get_by_role("heading", name=name, exact=True)).to_be_visible()


def submit_job(page: Page, workspace: str, name: str, cards: int, *, priority: str = "normal") -> None:
    """Submit a job by its form."""
    fill_job(page, workspace, name, cards, priority=priority)
    press_submit(page)


def expect_state(page: Page, state: str) -> None:
    """Wait until the open page of a job shows the state, without reloading it."""
    expect(head(page).get_by_text(state, exact=True)).to_be_visible()


def cancel_job(page: Page) -> None:
    """Cancel the job whose page is open; the page is then loaded anew."""
    head(page).get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
