"""What the engine is known to say falsely; the truth test fails for anything else."""

from __future__ import annotations

from typing import Final

_QUOTA = ("EXCEEDS_MAX_QUOTA", "WAITING_FOR_BORROWED", "WAITING_FOR_QUOTA")
_ALL = (
    *_QUOTA, "BACKOFF", "BEHIND_HEAD", "NEVER_FITS", "NO_ROOM", "PROTECTED", "QUEUE_STOPPED", "SUSPENDED",
    "RESERVED_FOR_LARGER",
)  # fmt: skip

KNOWN: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # A flavor that could never hold the job takes part in the explanation.
        *(("reason", reason) for reason in _ALL),
        *(("flavor, resource", reason) for reason in _QUOTA),
        ("flavor", "NO_ROOM"),
        # Elastic jobs are told of their full size.
        *(("asked", reason) for reason in (*_QUOTA, "NO_ROOM")),
        ("limit", "NO_ROOM"),
        # Of a job of several roles free cards are counted beside its own tasks that found a seat.
        *((part, "NO_ROOM") for part in ("free_cards", "most_free_on_one_node")),
        # What a job at its cap may have, and what is missing where more is used than owned.
        *((part, "EXCEEDS_MAX_QUOTA") for part in ("limit", "available", "ASK_LESS limit")),
        *((f"{code} short", reason) for reason in _QUOTA for code in ("RAISE_QUOTA", "WAIT_FOR_RELEASE")),
        # Offers that are not tried before they are shown.
        *((f"offer {code}", "NEVER_FITS") for code in ("ASK_FEWER_CARDS", "ASK_FEWER_TASKS", "ASK_LESS")),
        *((f"offer {code}", "NEVER_FITS") for code in ("ASK_OTHER_MODEL", "LOOSEN_PLACEMENT")),
        *((f"offer {code}", "NO_ROOM") for code in ("ASK_FEWER_CARDS", "ASK_FEWER_TASKS")),
        *((f"offer {code}", "EXCEEDS_MAX_QUOTA") for code in ("ASK_LESS", "MAKE_PREEMPTIBLE", "RAISE_QUOTA")),
        *((f"offer {code}", reason) for code in ("WAIT_FOR_RELEASE", "RAISE_QUOTA") for reason in _QUOTA),
        # Two ends of one job are counted where it was told to leave in the same cycle.
        ("crash", ""),
    }
)
"""By what is false, and the reason beside it."""
