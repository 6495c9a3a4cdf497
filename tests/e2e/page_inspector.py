"""Finds what is wrong with a page: errors, overflow, foreign or retired texts, accessibility barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils.translation import trans_real
from playwright.sync_api import Browser, ConsoleMessage, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from benchmarks.support.deadlines import DEADLINE_FACTOR
from tests.access.world import AccessWorld
from tests.architecture.test_user_texts import retired
from tests.e2e.page_inventory import HEIGHTS, Screen, Visit

_IMPACTS: Final = frozenset({"critical", "serious", "moderate"})
_BARRIER_WIDTHS: Final = frozenset({390, 1440})
"""The widths at which barriers are searched in a visit with several screens: both sides of the breakpoint."""
_COLOR_RULES: Final = ("color-contrast", "link-in-text-block")
"""The rules of axe-core whose result can change with the theme alone."""
_LOAD_MS: Final = 30_000 * DEADLINE_FACTOR
_DRAWN_MS: Final = 5_000 * DEADLINE_FACTOR
_SETTLE_MS: Final = 3_000 * DEADLINE_FACTOR
"""A time before most charts are fetched again, which would hide that they were not redrawn."""
_TEXTS: Final = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const texts = []
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement
        const text = walker.currentNode.textContent.replace(/\\s+/g, " ").trim()
        const foreign = "script, style, code, pre, .mono, [translate=no], body [lang]"
        if (text && parent.checkVisibility() && !parent.closest(foreign)) texts.push(text)
    }
    return texts
}"""
_DRAWN: Final = """() => [...document.querySelectorAll("[data-chart]")].every((chart) =>
    "drawn" in chart.dataset || !chart.checkVisibility() || chart.querySelector(".chart-problem"))"""
_DRAW_ALL: Final = "dispatchEvent(new Event('beforeprint'))"
"""Draws also the charts below the screen, as for printing."""
_FITS: Final = """(width) => innerWidth === width
    && [...document.querySelectorAll("[data-drawn] .chart-plot")].every((plot) => {
        const drawn = plot.querySelector(".main-svg")
        return !drawn || !plot.clientWidth || Math.abs(drawn.clientWidth - plot.clientWidth) < 2
    })
    && document.documentElement.scrollWidth <= width"""
_CUT_OFF: Final = """() => [...document.querySelectorAll(".tile, .tag, .button")]
    .filter((part) => part.checkVisibility() && part.scrollWidth > part.clientWidth + 1)
    .map((part) => part.textContent.replace(/\\s+/g, " ").trim())"""
_EMPTY: Final = """() => [...document.querySelectorAll(".card")]
    .filter((card) => card.checkVisibility() && !card.innerText.trim()
        && ![...card.querySelectorAll("svg, img, input")].some((part) => part.checkVisibility()))
    .map((card) => card.textContent.replace(/\\s+/g, " ").trim().slice(0, 60))"""
"""The texts of cards of which nothing is shown."""
_PAINTED: Final = (
    "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
)
_BARRIERS: Final = """(rules) => axe.run({
    resultTypes: ["violations"], preload: false, selectors: false,
    ...(rules.length ? { runOnly: { type: "rule", values: rules } } : {}),
}).then(({ violations }) => violations)"""
_ENGLISH: Final = re.compile(r"\b[A-Za-z]+(?: (?:[a-z]+|[A-Z][a-z]+)){2,}\b")
"""Three words in a row that are no abbreviations: names of things have fewer."""

_CODE: Final = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")
"""A name of code in place of a label."""

_NAMES: Final = frozenset({"Allotment", "YAML"})
"""Names of the platform and of a format, which are translated only as the name of an actor or a setting."""


@dataclass(slots=True)
class Inspector:
    """Loads pages in one browser, whose cache they share, and records what is wrong with them."""

    browser: Browser
    address: str
    w: AccessWorld
    pictures: Path | None = None
    """The folder for what each screen shows."""
    _page: Page | None = None
    _reader: tuple[str, str] | None = None
    _noted: list[str] = field(default_factory=list)

    def inspect(self, visit: Visit) -> list[str]:
        """Return what is wrong on the screens of a visit, a line each."""
        self._noted.clear()
        page = self._page_of(visit)
        self._show_on(page, visit.screens[0])
        try:
            answer = page.goto(visit.page.path, wait_until="load", timeout=_LOAD_MS)
        except PlaywrightTimeout:
            return [f"{visit}: not loaded"]
        if answer is None or answer.status != 200:
            return [f"{visit}: {answer and answer.status}"]
        problems = list(self._look_through(page, visit))
        return [f"{visit}: {problem}" for problem in dict.fromkeys([*self._noted, *problems])]

    def _look_through(self, page: Page, visit: Visit) -> Iterator[str]:
        page.evaluate(_DRAW_ALL)
        if not _wait(page, _DRAWN, within_ms=_DRAWN_MS):
            yield "a chart is not drawn"
        shown = visit.screens[0]
        for number, screen in enumerate(visit.screens):
            self._show_on(page, screen)
            at = f"{screen.width} px, {screen.theme}"
            if number == 0 or screen.width != shown.width:
                yield from _find_overflow(page, screen.width)
                yield from self._find_wrong_texts(page, visit.language)
            else:
                page.evaluate(_PAINTED)
            if len(visit.screens) == 1 or screen.width in _BARRIER_WIDTHS:
                rules = _COLOR_RULES if number and screen.width == shown.width else ()
                yield from (f"{at}: {barrier}" for barrier in _find_barriers(page, rules))
            if self.pictures is not None:
                file = self.pictures / f"{visit.file_name}_{screen.theme}_{screen.width}.jpg"
                page.screenshot(path=file, type="jpeg", quality=70)
            shown = screen
        for width in HEIGHTS.keys() - {screen.width for screen in visit.screens}:
            self._show_on(page, Screen(width, shown.theme))
            yield from _find_overflow(page, width)

    @staticmethod
    def _show_on(page: Page, screen: Screen) -> None:
        page.set_viewport_size({"width": screen.width, "height": HEIGHTS[screen.width]})
        page.emulate_media(
            color_scheme="dark" if screen.theme == "dark" else "light", reduced_motion="reduce"
        )

    def _find_wrong_texts(self, page: Page, language: str) -> Iterator[str]:
        """Yield retired phrases, codes in place of labels, and English sentences in another language."""
        # Names of things contain the word of their workspace.
        words = "|".join(place.slug for place in self.w.places.values())
        for text in dict.fromkeys(page.evaluate(_TEXTS)):
            plain = re.sub(rf"[\w-]*\b(?:{words})\b", "…", text)
            yield from (f"{plain!r}: {instead}" for instead in retired(plain))
            if _CODE.fullmatch(plain):
                yield f"a code as text: {plain!r}"
            if language != "en" and (_ENGLISH.search(plain) or plain in _translated(language)):
                yield f"not translated: {plain!r}"

    def _page_of(self, visit: Visit) -> Page:
        """Return the page of the browser, in which the reader of the visit is signed in."""
        if self._page is None:
            self._page = self.browser.new_context(base_url=self.address).new_page()
            # Playwright would set an attribute of its own on the owner of a bound method, which slots refuse.
            self._page.on("console", lambda said: self._note_error(said))
            self._page.on("pageerror", lambda error: self._noted.append(str(error)))
        if self._reader != (visit.role, visit.language):
            kept = {
                settings.SESSION_COOKIE_NAME: self.w.actors[visit.role].session,
                settings.LANGUAGE_COOKIE_NAME: visit.language,
            }
            self._page.context.add_cookies(
                [{"name": name, "value": value, "url": self.address} for name, value in kept.items()]
            )
            self._reader = visit.role, visit.language
        return self._page

    def _note_error(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self._noted.append(said.text)


@cache
def _translated(language: str) -> frozenset[str]:
    """Return the English texts that the catalogues translate: no page in another language may show them."""
    catalog = trans_real.translation(language)._catalog
    words = {text for text, other in catalog.items() if isinstance(text, str) and other != text}
    return frozenset(words) - _NAMES


def _wait(page: Page, condition: str, arg: Any = None, *, within_ms: float = _SETTLE_MS) -> bool:
    """Return whether a condition holds soon."""
    try:
        page.wait_for_function(condition, arg=arg, timeout=within_ms)
    except PlaywrightTimeout:
        return False
    return True


def _find_overflow(page: Page, width: int) -> Iterator[str]:
    """Yield whether the page, once redrawn, scrolls sideways, has a chart of another width, a text that
    overflows its box, or a card of which nothing is shown."""
    if not _wait(page, _FITS, width):
        wide = page.evaluate("document.documentElement.scrollWidth")
        yield f"scrolls sideways at {width} px: {wide} px" if wide > width else f"a chart ignores {width} px"
    yield from (f"wider than its box at {width} px: {text!r}" for text in page.evaluate(_CUT_OFF))
    yield from (f"an empty card at {width} px: {text!r}" for text in page.evaluate(_EMPTY))


def _find_barriers(page: Page, rules: tuple[str, ...]) -> Iterator[str]:
    """Yield what axe-core finds against WCAG 2.2 AA and its best practices, by some rules or all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    for item in page.evaluate(_BARRIERS, list(rules)):
        if item["impact"] in _IMPACTS:
            places = "; ".join(node["html"][:120] for node in item["nodes"][:3])
            yield f"axe {item['id']} ({item['impact']}): {item['help']}: {places}"
