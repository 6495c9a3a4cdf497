"""What the engine is known to say falsely; the truth test fails for anything else."""

from __future__ import annotations

from typing import Final

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset()
"""By what is false, and the reason beside it."""
