"""Cells of files that people open in a spreadsheet."""

from __future__ import annotations

from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|")


def text_cell(text: str) -> str:
    """Return a text for a cell of CSV: one that a spreadsheet would take for a formula gets an apostrophe.

    Leading spaces do not help: spreadsheets cut them off before they look.
    """
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
