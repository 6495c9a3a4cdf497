"""Joins sentences by the rules of their language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FULL_WIDTH: Final = ("。", "！", "？", "；", "：", "，")


def join_sentences(sentences: Iterable[object]) -> str:
    """Return sentences as one text, without the empty ones; after full-width punctuation no space follows."""
    joined = ""
    for text in filter(None, map(str, sentences)):
        joined += text if not joined or joined.endswith(_FULL_WIDTH) else f" {text}"
    return joined
