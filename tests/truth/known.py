"""What the engine is known to say falsely; the truth test fails for anything else."""

from __future__ import annotations

from typing import Final

_TRIED = (
    "ASK_FEWER_CARDS", "ASK_FEWER_TASKS", "ASK_LESS", "ASK_OTHER_MODEL", "LOOSEN_PLACEMENT",
    "MAKE_PREEMPTIBLE", "RAISE_QUOTA",
)  # fmt: skip
_UNDER = ("NEVER_FITS", "EXCEEDS_MAX_QUOTA", "NO_ROOM", "WAITING_FOR_BORROWED", "WAITING_FOR_QUOTA")

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # A job that asks for nothing looks at the first flavor alone; a job at its cap, which does not
        # borrow, is asked to leave as much unused as one that does.
        ("reason", "NO_ROOM"),
        ("reason", "WAITING_FOR_BORROWED"),
        # A flavor that could never hold a job counts as one that is open to it.
        *(("reason", reason) for reason in ("QUEUE_STOPPED", "SUSPENDED", "BACKOFF", "BEHIND_HEAD")),
        # Of a job of several roles free cards are counted beside its own tasks that found a seat.
        *((part, "NO_ROOM") for part in ("free_cards", "most_free_on_one_node")),
        # Offers that are not tried before they are shown.
        *((f"offer {code}", reason) for code in _TRIED for reason in _UNDER),
    }
)
"""By what is false, and the reason beside it."""
