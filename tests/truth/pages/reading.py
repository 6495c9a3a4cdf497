"""Reads the numbers of a page of the console out of its HTML."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from bs4 import BeautifulSoup, Tag

_NUMBER: Final = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
_BESIDE: Final = "svg, form, dialog, script, style, template, .actions"


def numbers_of(text: str) -> list[float]:
    """All numbers of a text, thousands separators and the typographic minus understood."""
    return [float(word.replace(",", "")) for word in _NUMBER.findall(text.replace("−", "-"))]


def number_of(text: str) -> float | None:
    """The only number of a text; None for a dash. Raises: ValueError for several numbers or other words."""
    if text.strip() == "–":
        return None
    found = numbers_of(text)
    if len(found) != 1:
        raise ValueError(f"not one number: {text!r}")
    return found[0]


def _text(part: Tag) -> str:
    return re.sub(r"\s+", " ", part.get_text(" ")).strip()


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table: the text of each cell by the heading of its column."""

    cells: dict[str, str]

    @property
    def name(self) -> str:
        """The text of the first cell."""
        return next(iter(self.cells.values()))

    def number(self, heading: str) -> float | None:
        """The number of a cell; None for a dash."""
        return number_of(self.cells[heading])

    def numbers(self, heading: str) -> list[float]:
        """All numbers of a cell."""
        return numbers_of(self.cells[heading])


class PageText:
    """One page as it came from the server, without what is drawn, asked or behind a button."""

    def __init__(self, html: str) -> None:
        self._soup = BeautifulSoup(html, "html.parser")
        self._charts: dict[str, list[list[str]]] = {}
        for chart in self._soup.select("[data-chart]:has(> script)"):
            figure = json.loads(chart.select_one("script").string or "{}")
            table = figure["layout"].get("meta", {}).get("table", {})
            self._charts[str(chart["data-chart"])] = table.get("rows", [])
        for part in self._soup.select(_BESIDE):
            part.decompose()

    def tiles(self) -> dict[str, tuple[str, str]]:
        """The value and the meaning of each tile by its label."""
        found = {}
        for tile in self._soup.select(".tile"):
            label, value, meaning = (tile.select_one(f".{name}") for name in ("label", "value", "meaning"))
            if label is not None and value is not None:
                found[_text(label)] = (_text(value), _text(meaning) if meaning is not None else "")
        return found

    def chart_table(self, key: str) -> list[list[str]]:
        """The rows of the text alternative of a chart."""
        return self._charts[key]

    def chips(self) -> dict[str, float]:
        """The counts of the filters above a list by their words."""
        found = {}
        for link in self._soup.select("nav a, .chips a, .tabs a"):
            words = _text(link)
            if match := re.fullmatch(r"(\D+?) ([\d,]+)", words):
                found[match[1]] = float(match[2].replace(",", ""))
        return found

    def lines(self, *headings: str, label: str = "") -> list[Line]:
        """The rows of the first table with these headings, and this label. Raises: AssertionError without."""
        for table in self._soup.select(f'[aria-label="{label}"] > table' if label else "table"):
            names = [_text(head) for head in table.select("thead th:not(.select)")]
            if set(headings) <= set(names):
                rows = (row.select(":scope > :is(td, th):not(.select)") for row in table.select("tbody tr"))
                full = [cells for cells in rows if len(cells) == len(names)]
                return [Line(dict(zip(names, map(_text, cells), strict=True))) for cells in full]
        raise AssertionError(f"no table with {headings}")

    def text(self) -> str:
        """The words of the main part."""
        main = self._soup.select_one("main")
        return _text(main if main is not None else self._soup)
