"""Each line of a name that wraps begins at the name's indent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.browser import chromium

pytestmark = pytest.mark.browser
STYLES: Final = Path(__file__).parents[2] / "frontend" / "static" / "frontend" / "css" / "data.css"
LINES: Final = """name => {
  const text = document.createRange();
  text.selectNodeContents(document.querySelector(`td .${name}`));
  const cell = document.querySelector(`td .${name}`).closest("td").getBoundingClientRect();
  return [...text.getClientRects()].map((line) => Math.round(line.left - cell.left));
}"""


def test_each_line_of_an_indented_name_has_the_indent() -> None:
    css = STYLES.read_text(encoding="utf-8")
    indents = dict(re.findall(r"\.(indent-\d) \{ padding-left: (\d+)px; \}", css))
    assert len(indents) == 3
    rows = "".join(
        f'<tr><td style="width: 90px"><span class="{name}">Speech / lab of the north</span></td></tr>'
        for name in indents
    )
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(f"<style>{css}</style><table style='width: 90px'>{rows}</table>")
        for name, indent in indents.items():
            starts = page.evaluate(LINES, name)
            assert len(starts) > 1 and set(starts) == {int(indent)}, (name, starts)
