"""Every page of the console, with the readers and screens with which it is inspected.

Pages and who may see them come from the table of the access matrix, so that a new page is here by itself.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

import httpx
from django.conf import settings

from tests.access.actors import ACTORS
from tests.access.asking import filled
from tests.access.covering import TABLE
from tests.access.oracle import verdict
from tests.access.table import Ask
from tests.access.world import AccessWorld

ROLES: Final = ("platform-admin", "folder-admin", "admin", "editor", "viewer")
LANGUAGES: Final = ("en", "zh-hans")
THEMES: Final = ("light", "dark")
HEIGHTS: Final = {390: 844, 1440: 900, 2560: 1440}
"""The heights of screens by their widths."""
_PARTS: Final = re.compile(r"\b(part|format)=|/charts/|/live$")
"""Addresses of parts and files of pages; others that are no whole pages are found by their answers."""
_KEYS: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Place:
    """A page: its path, a name of the page that is the same in every run, and its row of the table."""

    path: str
    name: str
    ask: Ask

    def is_seen_by(self, role: str) -> bool:
        return verdict(ACTORS[role], self.ask).granted


@dataclass(frozen=True, slots=True)
class Screen:
    """The state in which a browser shows a page."""

    width: int
    theme: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A page that a reader loads once, and the screens that it is shown on one after another."""

    page: Place
    role: str
    language: str
    screens: tuple[Screen, ...]

    def __str__(self) -> str:
        return f"{self.page.name} ({self.role}, {self.language})"

    @property
    def file_name(self) -> str:
        """The beginning of the names of its pictures."""
        words = re.sub(r"[^a-z0-9]+", "-", self.page.name.lower()).strip("-") or "home"
        return f"{words[:150]}_{self.role}_{self.language}"


def find_pages(w: AccessWorld, address: str) -> list[Place]:
    """Return all whole pages, without live parts of pages.

    Pages of a job are there twice, for one that waits and for one that runs.
    """
    waits = w.names() | {"me": "boss"}
    runs = waits | {"job": waits["held"]}
    cookies = {settings.SESSION_COOKIE_NAME: w.actors["platform-admin"].session}
    tried: set[str] = set()
    found: dict[str, Place] = {}
    with httpx.Client(base_url=address, cookies=cookies, timeout=60) as client:
        for ask, names in itertools.product(TABLE, (waits, runs)):
            path = "/" + filled(ask.route + ask.query, names | dict(ask.values))
            if ask.method != "GET" or ask.is_api or ask.ok not in {0, 200} or path in tried:
                continue
            tried.add(path)
            if not _PARTS.search(path) and _is_page(client, path):
                name = _KEYS.sub("ID", path)
                alike = sum(place.name.partition(" ")[0] == name for place in found.values())
                found[path] = Place(path, f"{name} {alike + 1}" if alike else name, ask)
    return list(found.values())


def _is_page(client: httpx.Client, path: str) -> bool:
    # A stream of events has no end: what is no page is not read.
    with client.stream("GET", path, follow_redirects=True) as answer:
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        if not answer.headers.get("content-type", "").startswith("text/html"):
            return False
        text = answer.read().decode()
    return "<html" in text and str(answer.url).endswith(path)


def list_visits(pages: list[Place]) -> list[Visit]:
    """Return all pages for all roles that may see them, in both languages, on all screens.

    A page is loaded narrow and becomes wider in one language, and the other way round in the other.
    """
    screens = [Screen(width, theme) for width in HEIGHTS for theme in THEMES]
    orders = dict(zip(LANGUAGES, (tuple(screens), tuple(reversed(screens))), strict=True))
    readers = itertools.product(ROLES, LANGUAGES)
    return [
        Visit(page, role, language, orders[language])
        for role, language in readers
        for page in pages
        if page.is_seen_by(role)
    ]


def list_sample(pages: list[Place]) -> list[Visit]:
    """Return each page once, in combinations of language and screen that go round."""
    combinations = itertools.cycle(itertools.product(HEIGHTS, LANGUAGES, THEMES))
    visits = []
    for page, (width, language, theme) in zip(pages, combinations, strict=False):
        role = next(role for role in ROLES if page.is_seen_by(role))
        visits.append(Visit(page, role, language, (Screen(width, theme),)))
    return sorted(visits, key=lambda visit: (visit.role, visit.language))
