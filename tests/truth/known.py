"""What the engine is known to say falsely; the truth test fails for anything else."""

from __future__ import annotations

from typing import Final

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # A job that asks for nothing looks at the first flavor alone; a job at its cap, which does not
        # borrow, is asked to leave as much unused as one that does.
        ("reason", "NO_ROOM"),
        ("reason", "WAITING_FOR_BORROWED"),
        # Of a job of several roles free cards are counted beside its own tasks that found a seat.
        *((part, "NO_ROOM") for part in ("free_cards", "most_free_on_one_node")),
        # Offers that are not tried before they are shown.
        *((f"offer {code}", "NEVER_FITS") for code in ("ASK_FEWER_CARDS", "ASK_FEWER_TASKS", "ASK_LESS")),
        ("offer ASK_OTHER_MODEL", "NEVER_FITS"),
        # Two roles that are too much together: what is offered is enough for the first one.
        ("offer RAISE_QUOTA", "EXCEEDS_MAX_QUOTA"),
        *((f"offer {code}", "NO_ROOM") for code in ("ASK_FEWER_CARDS", "ASK_FEWER_TASKS")),
        # Two ends of one job are counted where it was told to leave in the same cycle.
        ("crash", ""),
    }
)
"""By what is false, and the reason beside it."""
