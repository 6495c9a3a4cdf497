"""Every page of the console in a real browser, and what is wrong with it for a reader.

Pages and who may see them come from the table of the access matrix, so that a new page is here by itself.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from playwright.sync_api import Browser, ConsoleMessage, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from benchmarks.support.deadlines import DEADLINE_FACTOR
from tests.access.actors import ACTORS
from tests.access.asking import filled
from tests.access.covering import TABLE
from tests.access.oracle import verdict
from tests.access.table import Ask
from tests.access.world import AccessWorld
from tests.architecture.test_user_texts import retired

ROLES: Final = ("platform-admin", "folder-admin", "admin", "editor", "viewer")
LANGUAGES: Final = ("en", "zh-hans")
THEMES: Final = ("light", "dark")
WIDTHS: Final = (390, 1440, 2560)
_SERIOUS: Final = frozenset({"critical", "serious", "moderate"})
_TEXTS: Final = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const texts = []
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement
        const text = walker.currentNode.textContent.replace(/\\s+/g, " ").trim()
        const foreign = "script, style, code, pre, [translate=no], body [lang]"
        if (text && parent.checkVisibility() && !parent.closest(foreign)) texts.push(text)
    }
    return texts
}"""
_ENGLISH: Final = re.compile(r"\b[A-Za-z]+(?: (?:[a-z]+|[A-Z][a-z]+)){2,}\b")
"""Three words in a row that are no abbreviations: a name of a thing has fewer."""


@dataclass(frozen=True, slots=True)
class View:
    """One page as one reader has it on the screen."""

    path: str
    role: str
    language: str
    theme: str
    width: int

    def __str__(self) -> str:
        return f"{self.path} ({self.role}, {self.language}, {self.theme}, {self.width} px)"

    def browser(self) -> tuple[str, int, str, str]:
        """What a browser is set to for it: who is signed in, width, language and theme."""
        return self.role, self.width, self.language, self.theme

    @property
    def file_name(self) -> str:
        """The name of its picture."""
        words = re.sub(r"[^a-z0-9]+", "-", self.path.lower()).strip("-") or "home"
        return f"{words[:150]}_{self.role}_{self.language}_{self.theme}_{self.width}.png"


def find_pages(w: AccessWorld, address: str) -> dict[str, Ask]:
    """Return the paths of all whole pages, each with its row of the table, without live parts of pages.

    Pages of a job are there twice, for one that waits and for one that runs.
    """
    waits = w.names() | {"me": "boss"}
    runs = waits | {"job": waits["held"]}
    cookies = {settings.SESSION_COOKIE_NAME: w.actors["platform-admin"].session}
    found: dict[str, Ask] = {}
    with httpx.Client(base_url=address, cookies=cookies, timeout=60) as client:
        for ask, names in itertools.product(TABLE, (waits, runs)):
            if ask.method != "GET" or ask.is_api or ask.ok not in {0, 200}:
                continue
            path = "/" + filled(ask.route + ask.query, names | dict(ask.values))
            if path in found:
                continue
            # A stream of events has no end: what is no page is not read.
            with client.stream("GET", path, follow_redirects=True) as answer:
                assert answer.status_code == 200, f"{path}: {answer.status_code}"
                if not answer.headers.get("content-type", "").startswith("text/html"):
                    continue
                text = answer.read().decode()
            if "<html" in text and str(answer.url).endswith(path):
                found[path] = ask
    return found


def list_views(pages: dict[str, Ask], *, whole: bool) -> list[View]:
    """Return what is looked at: all combinations, or each page once, in combinations that go round.

    Views of one browser follow one another.
    """
    screens = list(itertools.product(WIDTHS, LANGUAGES, THEMES))
    views = []
    for number, (path, ask) in enumerate(pages.items()):
        readers = [role for role in ROLES if verdict(ACTORS[role], ask).granted]
        if not whole:
            readers, looked = readers[:1], [screens[number % len(screens)]]
        else:
            looked = screens
        for role, (width, language, theme) in itertools.product(readers, looked):
            views.append(View(path, role, language, theme, width))
    return sorted(views, key=View.browser)


@dataclass(slots=True)
class Inspector:
    """Opens views in a browser and writes down what is wrong."""

    browser: Browser
    address: str
    w: AccessWorld
    _page: Page | None = None
    _set_to: tuple[str, int, str, str] | None = None
    _problems: list[str] = field(default_factory=list)

    def inspect(self, view: View) -> list[str]:
        """Return what is wrong with a view, a line each."""
        self._problems.clear()
        page = self._page_of(view)
        answer = page.goto(view.path, wait_until="load")
        if answer is None or answer.status != 200:
            return [f"{view}: {answer and answer.status}"]
        problems = [
            *self._problems,
            *_find_overflow(page, view.width),
            *self._find_wrong_texts(page, view.language),
        ]
        problems += _find_barriers(page)
        return [f"{view}: {problem}" for problem in problems]

    def save_picture(self, file: Path) -> None:
        """Save what the browser shows of the view that was inspected last."""
        assert self._page is not None
        self._page.screenshot(path=file, full_page=True)

    def _find_wrong_texts(self, page: Page, language: str) -> list[str]:
        """Return retired phrases in English, and English sentences in another language."""
        # Names of things hold the word of their workspace.
        words = "|".join(place.slug for place in self.w.places.values())
        texts = [
            re.sub(rf"[\w-]*\b(?:{words})\b", "…", text) for text in dict.fromkeys(page.evaluate(_TEXTS))
        ]
        if language == "en":
            return [f"{text!r}: {instead}" for text in texts for instead in retired(text)]
        return [f"not translated: {text!r}" for text in texts if _ENGLISH.search(text)]

    def _page_of(self, view: View) -> Page:
        """Return the page of the browser that the view needs; views of one browser follow one another."""
        if self._page is not None and self._set_to == view.browser():
            return self._page
        if self._page is not None:
            self._page.context.close()
        context = self.browser.new_context(
            base_url=self.address,
            viewport={"width": view.width, "height": 900},
            color_scheme="dark" if view.theme == "dark" else "light",
        )
        kept = {
            settings.SESSION_COOKIE_NAME: self.w.actors[view.role].session,
            settings.LANGUAGE_COOKIE_NAME: view.language,
        }
        context.add_cookies(
            [{"name": name, "value": value, "url": self.address} for name, value in kept.items()]
        )
        self._page, self._set_to = context.new_page(), view.browser()
        # Playwright would set an attribute of its own on the owner of a bound method, which slots refuse.
        self._page.on("console", lambda said: self._note_error(said))
        self._page.on("pageerror", lambda error: self._problems.append(str(error)))
        return self._page

    def _note_error(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self._problems.append(said.text)


def _find_overflow(page: Page, width: int) -> list[str]:
    """Return the widths at which the page, once redrawn, scrolls sideways; it is left at its own."""
    found = []
    for tried in (*(other for other in WIDTHS if other != width), width):
        page.set_viewport_size({"width": tried, "height": 900})
        try:
            page.wait_for_function(
                "width => document.documentElement.scrollWidth <= width",
                arg=tried,
                timeout=5_000 * DEADLINE_FACTOR,
            )
        except PlaywrightTimeout:
            wide = page.evaluate("document.documentElement.scrollWidth")
            found.append(f"scrolls sideways at {tried} px: {wide} px")
    return found


def _find_barriers(page: Page) -> list[str]:
    """Return what axe-core finds against WCAG 2.2 AA and its best practices."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"axe {item['id']} ({item['impact']}): {item['help']}: "
        + "; ".join(node["html"][:120] for node in item["nodes"][:3])
        for item in found
        if item["impact"] in _SERIOUS
    ]
