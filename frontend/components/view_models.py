"""The values that components show. Views build these; templates only lay them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Check:
    """One gate of a pending job: passed (True), not passed (False) or not evaluated (None)."""

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
    """One recommendation, its effect, and where to follow it.

    `url` is a page; `act` is an action of the surrounding form, for a recommendation without a page.
    """

    title: str
    effect: str
    url: str = ""
    action: str = ""
    primary: bool = False
    act: str = ""
    new_tab: bool = False


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """One event of a timeline: its time, its text, and a tag where the event has a tone."""

    at: datetime
    text: str
    tag: str = ""
    tone: str = "info"
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One choice of a filter in the address; the empty value means all."""

    label: str
    value: str = ""
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Crumb:
    """A link to a page above this one."""

    label: str
    url: str


@dataclass(frozen=True, kw_only=True)
class ProblemBox:
    """A problem as the console shows it: what went wrong, what was kept, what to do, and the `code` for
    support.
    """

    title: str
    detail: str = ""
    unchanged: str = ""
    help: str = ""
    code: str = ""
    tone: str = "failed"
