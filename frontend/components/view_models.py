"""The values that components draw. Views build these; templates only lay them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Check:
    """One gate of the why list: passed (True), not passed (False) or not looked at (None)."""

    title: str
    text: str
    passed: bool | None
    url: str = ""
    link: str = ""

    @property
    def tone(self) -> str:
        return {True: "yes", False: "no", None: "unknown"}[self.passed]


@dataclass(frozen=True, kw_only=True)
class HelpItem:
    """One thing that would help, what it would bring, and where to do it.

    `url` is a page; `act` is an action of the form around the recommendation, for one without a page.
    """

    title: str
    effect: str
    url: str = ""
    action: str = ""
    primary: bool = False
    act: str = ""
    new_tab: bool = False


@dataclass(frozen=True, kw_only=True)
class StoryRow:
    """One event of a story: when, what, and a tag where the event has a tone."""

    at: datetime
    text: str
    tag: str = ""
    tone: str = "info"
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One choice of a filter that lives in the address; the empty value means all."""

    label: str
    value: str = ""
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Crumb:
    """A step above this page."""

    label: str
    url: str


@dataclass(frozen=True, kw_only=True)
class ProblemBox:
    """A problem as the console shows it: what went wrong, what was kept, what to do; support asks for
    `code`.
    """

    title: str
    detail: str = ""
    unchanged: str = ""
    help: str = ""
    code: str = ""
    tone: str = "failed"
