"""The names of MIG profiles, which give the part of a card that an instance has.

`2g.10gb` is two of the card's equal compute parts with 10 GB; `1c.2g.10gb` is one compute part of such
an instance; a suffix (`+me`, `.me`) adds media engines, which are not charged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PROFILE = re.compile(
    r"(?:(?P<parts>[1-9]\d?)c\.)?(?P<slices>[1-9]\d?)g\.(?P<gb>[1-9]\d{0,3})gb(?:[+.][a-z]+(?:\.[a-z]+)*)?"
)


class MigProfile(NamedTuple):
    """Compute parts and memory of an instance."""

    parts: int
    gigabytes: int


def parse_profile(name: str) -> MigProfile:
    """Return the parts of a profile's name.

    Raises:
        ValueError: when the name is no profile.
    """
    found = _PROFILE.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no MIG profile; one looks like 2g.10gb")
    return MigProfile(int(found["parts"] or found["slices"]), int(found["gb"]))
