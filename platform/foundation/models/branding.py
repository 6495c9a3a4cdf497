"""The name and logo that an installation shows in place of those of the product."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Final

from django.db import DatabaseError

from foundation.models import Installation

PRODUCT: Final = "Allotment"

CACHED_S: Final = 30.0
"""The most seconds until other processes show a change."""


@dataclass(frozen=True, slots=True)
class Branding:
    """The name, empty for that of the product, and the mark of the logo, empty without one."""

    name: str = ""
    logo_mark: str = ""

    @property
    def display_name(self) -> str:
        """The name in page titles and emails."""
        return self.name or PRODUCT


class _Cached:
    """The branding that this process read last, since every page shows it."""

    branding: ClassVar[Branding | None] = None
    until: ClassVar[float] = 0.0


def read_branding() -> Branding:
    """Return the name and logo of the installation, which are public."""
    now = time.monotonic()
    if _Cached.branding is None or now >= _Cached.until:
        try:
            row = Installation.unscoped.values_list("name", "logo_mark").first()
        except DatabaseError:
            return _Cached.branding or Branding()  # so that error pages can still be shown
        _Cached.branding, _Cached.until = Branding(*row) if row else Branding(), now + CACHED_S
    return _Cached.branding


def forget_branding() -> None:
    """Let this process read the branding again."""
    _Cached.branding = None


def read_logo(mark: str) -> tuple[bytes, str] | None:
    """Return the logo with that mark and its media type; None if there is none, or it was replaced."""
    row = Installation.unscoped.filter(logo_mark=mark).values_list("logo", "logo_type").first()
    return None if row is None or row[0] is None else (bytes(row[0]), row[1])
