"""Sections that fold on narrow screens are opened by mouse, keyboard, links and fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from django.template import engines
from playwright.sync_api import Browser, Page

from tests.fixtures.browser import chromium

pytestmark = pytest.mark.browser
STATIC: Final = Path(__file__).parents[2] / "frontend" / "static" / "frontend"
PAGE: Final = """{% load ui %}<a href="#limit">To the field</a><main><form>
{% card "Power" note="kW" key="power" folds=True %}<p id="inside">12 kW</p>{% endcard %}
{% card "Settings" key="settings" folds=True %}<input id="limit" name="limit" required>{% endcard %}
{% card "Open" key="open" %}<p>always</p>{% endcard %}
{% card key="advanced" %}<details class="fold"><summary>Advanced</summary><p>more</p></details>{% endcard %}
<button id="save">Save</button></form></main>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def _open(browser: Browser, width: int) -> Page:
    def read(*names: str) -> str:
        return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)

    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    css = read("css/tokens.css", "css/base.css", "css/components.css", "css/data.css")
    page.route("http://folds.test/*", lambda route: route.fulfill(content_type="text/html", body=_body(css)))
    page.goto("http://folds.test/page")
    page.evaluate("window.allotment = {}; window.htmx = { defineExtension() {} };")
    page.add_script_tag(content=read("js/morph.js", "js/pages.js"))
    return page


def _body(css: str) -> str:
    return f"<!doctype html><style>{css}</style>{_content()}"


def _content() -> str:
    return engines["django"].from_string(PAGE).render()


def test_a_section_opens_by_mouse_and_keyboard_and_stays_open_when_the_page_refreshes(
    browser: Browser,
) -> None:
    page = _open(browser, 390)
    inside, button = page.locator("#inside"), page.get_by_role("button", name="Power")
    assert not inside.is_visible() and page.get_by_text("always").is_visible()
    assert (
        page.get_by_role("heading", name="Power").is_visible() and page.get_by_text("kW").first.is_visible()
    )
    button.focus()
    page.keyboard.press("Enter")
    assert inside.is_visible() and button.get_attribute("aria-expanded") == "true"
    page.evaluate(
        "html => allotment.morph(document.querySelector('main'), html)", _content().partition("<main>")[2]
    )
    assert inside.is_visible() and button.get_attribute("aria-expanded") == "true"
    page.get_by_role("heading", name="Power").click(force=True)
    assert not inside.is_visible() and button.get_attribute("aria-expanded") == "false"


def test_a_link_to_something_inside_opens_the_section(browser: Browser) -> None:
    page = _open(browser, 390)
    page.get_by_role("link", name="To the field").click()
    page.locator("#limit").wait_for(state="visible")
    assert not page.locator("#inside").is_visible()


def test_a_field_that_is_not_valid_opens_its_section(browser: Browser) -> None:
    page = _open(browser, 390)
    page.get_by_role("button", name="Save").click()
    page.locator("#limit").wait_for(state="visible")
    assert page.get_by_role("button", name="Settings").get_attribute("aria-expanded") == "true"


def test_wide_screens_show_sections_in_full_and_tell_the_server(browser: Browser) -> None:
    page = _open(browser, 1000)
    assert page.locator("#inside").is_visible() and page.locator("#limit").is_visible()
    assert not page.get_by_role("button", name="Power").count()
    assert page.evaluate("document.cookie") == ""
    page.set_viewport_size({"width": 390, "height": 800})
    assert not page.locator("#inside").is_visible()
    page.wait_for_function("document.cookie === 'narrow=1'")


@pytest.mark.parametrize("width", [390, 1000])
def test_details_are_opened_at_every_width(browser: Browser, width: int) -> None:
    page = _open(browser, width)
    page.get_by_text("Advanced").click()
    page.get_by_text("more").wait_for(state="visible")
