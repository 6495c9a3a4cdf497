"""Icons are those of the lucide package, which are read from its archive without its own slow reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lucide.templatetags.lucide import lucide

import frontend
from frontend.components.icons import draw_icon

NAMED = re.compile(r"""\{% icon "([a-z0-9-]+)\"""")


def test_each_icon_of_the_templates_looks_as_the_package_draws_it() -> None:
    files = Path(frontend.__file__).parent.rglob("templates/**/*.html")
    names = sorted({name for file in files for name in NAMED.findall(file.read_text(encoding="utf-8"))})
    assert len(names) > 30
    drawn = [draw_icon(name, 16) for name in names]
    assert drawn == [lucide(name, size=16, aria_hidden="true", focusable="false") for name in names]


def test_an_icon_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        draw_icon("no-such-icon", 16)
