"""What the engine is known to say falsely; the truth test fails for anything else."""

from __future__ import annotations

from typing import Final

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # A job that asks for nothing at all looks at the first flavor alone.
        ("reason", "NO_ROOM"),
        # Of a job of several roles free cards are counted beside its own tasks that found a seat.
        *((part, "NO_ROOM") for part in ("free_cards", "most_free_on_one_node")),
    }
)
"""By what is false, and the reason beside it."""
