"""Names that a template gives to its texts don't hide what its view gives it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parents[3] / "frontend" / "templates"
_NAMED: Final = re.compile(r"\{% (?:translate .*? as|blocktranslate[^%]* asvar) (\w+)")
_CONDITION: Final = re.compile(r"\{% (?:el)?if ([^%]+) %\}")


def hidden_names(text: str) -> set[str]:
    """Names of texts that are also conditions: a text is never empty, so the condition always holds."""
    asked = {
        word for found in _CONDITION.findall(text) for word in re.findall(r"(?<![.\w])\w+(?![.\w])", found)
    }
    return asked & set(_NAMED.findall(text))


def test_a_text_that_is_a_condition_is_found() -> None:
    text = '{% translate "Delete?" as ask %}{% if row.ask %}{% endif %}'
    assert not hidden_names(text)
    assert hidden_names(text + "{% if may and not ask %}") == {"ask"}


def test_no_condition_of_a_template_is_a_name_of_its_texts() -> None:
    found = {path.name: hidden_names(path.read_text(encoding="utf-8")) for path in TEMPLATES.rglob("*.html")}
    assert len(found) > 100 and not {name: names for name, names in found.items() if names}
