"""Known false reports of the engine; the truth test fails for any other."""

from __future__ import annotations

from typing import Final

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset()
"""Known faults by kind, each with the cause."""
