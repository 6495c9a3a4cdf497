"""An installation as its users see it in the console, and comparisons of shown and true values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from django.test import Client

from tenants.models import User
from tests.truth.pages.installations import Installation
from tests.truth.pages.ledger import Ledger
from tests.truth.pages.reading import PageText, number_of

Subject = TypeVar("Subject")
MISSING: Final = "–"
NODE_COLUMNS: Final = "name.free.fraction.allocated.used.memory.pods"
TREE_COLUMNS: Final = "owner.unassigned.allocated.rate.used.borrowed.lent.free.pending.others"
"""The columns of lists that are compared, as a reader may choose them."""
_MIB: Final = {"MiB": 1.0, "GiB": 1024.0}


@dataclass(frozen=True)
class Console:
    """An installation in the console, and what its rows say."""

    made: Installation
    ledger: Ledger

    def open(self, user: User, path: str) -> PageText:
        """The page as a user has it."""
        client = Client()
        client.force_login(user)
        client.cookies["list-nodes"] = NODE_COLUMNS
        client.cookies["list-quota-tree"] = TREE_COLUMNS
        answer = client.get(path)
        assert answer.status_code == 200, path
        return PageText(answer.content.decode())

    def operate(self, path: str) -> PageText:
        """The page as the platform admin has it."""
        return self.open(self.made.operator, path)


def find_faults(subject: Subject, checks: Mapping[str, Callable[[Subject], None]]) -> dict[str, str]:
    """The faults that each check finds."""
    faults = {}
    for name, check in checks.items():
        try:
            check(subject)
        except (AssertionError, KeyError, ValueError, IndexError, StopIteration) as error:
            faults[name] = repr(error)[:600]
    return faults


def same_hours(text: str, seconds: float) -> bool:
    """Return whether GPU-hours are shown exactly; what would be rounded to nothing has a bound."""
    shown = text.removesuffix(" h")
    if shown.startswith("<"):
        return 0 < seconds / 3600 < float(shown[1:])
    digits = len(shown.partition(".")[2])
    return abs((number_of(shown) or 0.0) - seconds / 3600) <= 0.5 * 10**-digits + 1e-4


def same_percent(text: str, true: float | None, digits: int = 0) -> bool:
    """Return whether a share is shown exactly; an unknown one is a dash."""
    if true is None:
        return text.strip() == MISSING
    shown = re.fullmatch(r"([\d.,]+) %", text.strip())
    return shown is not None and abs(float(shown[1].replace(",", "")) - true) <= 0.5 * 10**-digits + 1e-6


def same_memory(text: str, mebibytes: float) -> bool:
    """Return whether an amount of memory is shown exactly, rounded to a tenth of a GiB or a MiB."""
    shown = re.fullmatch(r"([\d.,]+) (MiB|GiB)", text.strip())
    if shown is None:
        return False
    unit = _MIB[shown[2]]
    return abs(float(shown[1].replace(",", "")) * unit - mebibytes) <= (0.5 if unit == 1 else 0.0501 * unit)
