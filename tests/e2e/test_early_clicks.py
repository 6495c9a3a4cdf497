"""Clicks and changes before the scripts of a page run: each is carried out once the scripts have run.

Scripts are delayed until the clicks are done, as on a slow connection, and not for a fixed time: every kind
of control does the same after an early click, and does it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, Route, expect

import frontend
from tests.builders import clusters, jobs, quotas, tenancy
from tests.e2e.page_weight import watch_problems
from tests.e2e.signed_in import OpenPage, signed_in_browser
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium_path
from tests.fixtures.postgres import PostgresServer

_DEFERRED: Final = re.compile(r"/(?!theme|early)[\w.-]+\.js(\?|$)")
_PHONE, _DESK = (390, 1440)
_COUNT_CHANGES: Final = "addEventListener('change', () => { window.changes = (window.changes ?? 0) + 1; });"
_HAVE_COME: Final = "(urls) => urls.every((url) => performance.getEntriesByName(url)[0]?.responseEnd)"


@dataclass(frozen=True, slots=True)
class Early:
    """A control on a page: the action before the scripts run, and the check of its effect."""

    path: str
    control: str
    effect: Callable[[Page], None]
    width: int = _DESK
    open_first: str = ""
    """The menu, usable without scripts, that contains the control."""
    choose: str = ""
    """The option that is chosen, where the control isn't clicked."""

    def find(self, page: Page) -> Locator:
        return page.locator(self.control).first


def seen(selector: str) -> Callable[[Page], None]:
    return lambda page: expect(page.locator(selector).first).to_be_visible()


def filled(selector: str) -> Callable[[Page], None]:
    return lambda page: expect(page.locator(selector)).not_to_be_empty()


def at(query: str) -> Callable[[Page], None]:
    return lambda page: page.wait_for_url(re.compile(query))


def copied(page: Page) -> None:
    """A browser that denies access to its clipboard selects the text instead."""
    page.wait_for_function("() => document.querySelector('[data-toast]') || String(getSelection())")


CONTROLS: Final = {
    "data-drawer-toggle": Early("/w/vision/jobs", ".drawer-button", seen(":root[data-drawer=open]"), _PHONE),
    "data-dialog-open": Early("/w/vision/jobs/{job}", "[data-dialog-open^=cancel]", seen("dialog[open]")),
    "data-row": Early(
        "/w/vision/jobs", ".row-menu[open] [data-row]", seen("dialog[open]"), open_first=".row-menu summary"
    ),
    "data-autosubmit": Early("/w/vision/jobs", "select[name=range]", at("range=7d"), choose="7d"),
    "hx-get": Early("/w/vision/jobs/new", "[hx-target='#startable']", filled("#startable")),
    "data-copy": Early("/w/vision/jobs/{job}?tab=spec", "[data-copy]", copied),
    "data-cell": Early("/ops/quotas/tree", "button.cell", seen("input.cell-input")),
    "data-move": Early("/ops/quotas/tree", "[data-move]", seen("#move-dialog[open]")),
}


@pytest.fixture(scope="module")
def open_page(module_on_postgres: PostgresServer) -> Iterator[OpenPage]:
    """A browser in which the administrator of a folder with two queues and a pending job signs in."""
    chromium_path()  # skips the test before anything is started
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    clusters.nodes(flavor, 2)
    jobs.priority_class()
    research, boss = tenancy.folder("research"), tenancy.platform_admin("boss")
    for name in ("vision", "speech"):
        queue = quotas.queue(cell, tenancy.workspace(name, research), [flavor], cards=6)
        jobs.job(queue, boss, "train")
    with api_server(module_on_postgres) as address, signed_in_browser(address) as opening:
        yield opening


@pytest.fixture
def page(open_page: OpenPage) -> Iterator[Page]:
    """A page that shares nothing with those of other tests but the session."""
    with open_page() as opened:
        yield opened


@contextmanager
def held_scripts(page: Page, names: re.Pattern[str] = _DEFERRED) -> Iterator[None]:
    """Delay deferred scripts, all or some, of the page that is opened within the block until its end."""
    held: list[Route] = []
    page.route(names, lambda route: held.append(route))
    yield
    assert held, "the scripts were not asked for"
    for route in held:
        route.continue_()
    page.unroute(names)


def act_early(page: Page, path: str, early: Early) -> None:
    page.set_viewport_size({"width": early.width, "height": 900})
    with held_scripts(page):
        page.goto(path, wait_until="commit")
        if early.open_first:
            page.locator(early.open_first).first.click()
        control = early.find(page)
        if early.choose:
            control.select_option(early.choose)
        else:
            control.click()
            expect(control).to_have_attribute("aria-busy", "true")
            control.click()  # a second, impatient click


@pytest.mark.browser
@pytest.mark.server
@pytest.mark.timeout(240)
def test_what_is_clicked_before_the_scripts_run_is_carried_out(page: Page) -> None:
    problems = watch_problems(page)
    page.goto("/w/vision/jobs")
    job = page.locator("table.listing td.lead > a").first.get_attribute("href")
    assert job is not None
    for kind, early in CONTROLS.items():
        act_early(page, early.path.replace("/w/vision/jobs/{job}", job), early)
        try:
            early.effect(page)
        except AssertionError as error:
            raise AssertionError(f"{kind}: an early click has no effect") from error
        assert page.locator("[aria-busy]").count() == 0, kind
    assert problems == []


@pytest.mark.browser
@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_action_between_two_scripts_is_carried_out_once(page: Page) -> None:
    """All scripts but the last have run, and handle the events that reach them."""
    page.set_viewport_size({"width": _PHONE, "height": 900})
    page.goto("/w/vision/jobs")
    scripts = page.evaluate("[...document.querySelectorAll('script[defer]')].map((one) => one.src)")
    page.add_init_script(_COUNT_CHANGES)
    with held_scripts(page, re.compile(re.escape(scripts[-1]))):
        page.goto("/w/vision/jobs", wait_until="commit")
        page.wait_for_function(_HAVE_COME, arg=scripts[:-1])
        page.wait_for_timeout(300)  # for the last of them to run
        page.locator(".drawer-button").click()
        page.locator("input[type=search]").first.dispatch_event("change")
    page.wait_for_load_state()
    expect(page.locator(":root[data-drawer=open]")).to_have_count(1)
    page.wait_for_function("() => window.changes")
    assert page.evaluate("window.changes") == 1


@pytest.mark.browser
@pytest.mark.server
@pytest.mark.timeout(120)
def test_an_action_between_the_scripts_and_what_was_kept_is_carried_out_once(page: Page) -> None:
    """The click comes while the page announces that its scripts have run, and once more before."""
    page.set_viewport_size({"width": _PHONE, "height": 900})
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => document.querySelector('.drawer-button').click());"
    )
    page.goto("/w/vision/jobs")
    page.wait_for_timeout(300)
    expect(page.locator(":root[data-drawer=open]")).to_have_count(1)
    act_early(page, "/w/vision/jobs", CONTROLS["data-drawer-toggle"])
    page.wait_for_load_state()
    expect(page.locator(":root[data-drawer=open]")).to_have_count(1)


@pytest.mark.browser
@pytest.mark.server
@pytest.mark.timeout(120)
def test_the_theme_is_switched_at_once_and_a_chart_is_offered_as_a_file_when_it_is_drawn(page: Page) -> None:
    with held_scripts(page):
        page.goto("/w/vision/overview", wait_until="commit")
        switch = page.locator("[data-theme-switch]").first
        switch.click()
        expect(switch).to_have_attribute("data-choice", "light")
        expect(page.locator("[data-chart-png]").first).to_be_disabled()
    page.locator("[data-chart]").first.scroll_into_view_if_needed()
    expect(page.locator("[data-chart-png]").first).to_be_enabled()
    expect(switch).to_have_attribute("data-choice", "light")


def test_what_only_scripts_act_on_is_a_button_of_its_own() -> None:
    """Only such buttons are clicked again; other controls that fetch a fragment work without a second click.

    Forms and links work without scripts.
    """
    wrong = []
    for file in sorted(Path(frontend.__file__).parent.rglob("templates/**/*.html")):
        for tag, attributes in re.findall(r"<([a-z]+)\b((?:[^<>]|<[^>]*>)*?)>", file.read_text("utf-8")):
            acts = re.search(r"\b(hx-(get|post)=|data-dialog-open|data-copy=|data-add-line=)", attributes)
            alone = tag == "form" or "hx-trigger=" in attributes or (tag == "a" and "href=" in attributes)
            if acts and not alone and 'type="button"' not in attributes:
                wrong.append(f"{file.name}: <{tag}{attributes[:60]}")
    assert wrong == []
