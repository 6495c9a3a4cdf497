"""Colours are readable in both themes (WCAG AA), and style sheets stay small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import frontend

STATIC = Path(frontend.__file__).parent / "static" / "frontend"
TOKENS = dict(
    re.findall(
        r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", (STATIC / "css" / "tokens.css").read_text("utf-8")
    )
)
TEXT_ON_GROUND = [
    *((ink, ground) for ink in ("ink", "ink-2", "ink-3", "brand") for ground in ("card", "page", "hover")),
    *((f"{tone}", f"{tone}-soft") for tone in ("running", "waiting", "failed", "info", "done", "brand")),
    *((tone, "card") for tone in ("running", "waiting", "failed", "info")),
    ("on-brand", "brand-fill"),
    ("on-brand", "brand-fill-hover"),
    ("bar-ink", "bar"),
    ("bar-ink-quiet", "bar-field"),
]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_has_enough_contrast(text: str, ground: str, theme: int) -> None:
    assert contrast(TOKENS[text].split(", ")[theme], TOKENS[ground].split(", ")[theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_field_borders_and_marks_have_enough_contrast(theme: int) -> None:
    assert contrast(TOKENS["line-strong"].split(", ")[theme], TOKENS["card"].split(", ")[theme]) >= 2.8


def test_style_sheets_use_tokens_that_exist() -> None:
    sheets = {path.name: path.read_text("utf-8") for path in (STATIC / "css").glob("*.css")}
    declared = set(re.findall(r"^\s*--([\w-]+):", sheets["tokens.css"], re.M))
    used = {name for text in sheets.values() for name in re.findall(r"var\(--([\w-]+)\)", text)}
    assert used <= declared
    assert max(len(text.splitlines()) for text in sheets.values()) < 350
