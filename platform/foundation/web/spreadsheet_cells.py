"""Cells of files that users open in a spreadsheet."""

from __future__ import annotations

from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|")


def text_cell(text: str) -> str:
    """Return a text for a cell of CSV, with an apostrophe if a spreadsheet would take it for a formula.

    Leading spaces do not help: spreadsheets strip them first.
    """
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
