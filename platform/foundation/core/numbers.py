"""Parses whole numbers from text that users send."""

from __future__ import annotations

from typing import Final

LARGEST: Final = 10**18


def read_whole(text: str, most: int = LARGEST) -> int | None:
    """Return the number that a text of plain digits represents; None for other texts and for more than
    `most`.

    A text of thousands of digits is never converted: Python refuses that, and would fail later when the
    number is shown.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST)):
        return None
    number = int(text)
    return number if number <= most else None
