"""Whole numbers out of text that people send."""

from __future__ import annotations

from typing import Final

LARGEST: Final = 10**18


def read_whole(text: str, most: int = LARGEST) -> int | None:
    """The number that a text of plain digits is; None for any other text, and for more than `most`.

    A text of thousands of digits is never turned into a number: Python refuses to, and fails later where the
    number is to be shown.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST)):
        return None
    number = int(text)
    return number if number <= most else None
