"""The points of faults: the marked points of each step of the platform's work, and what is known of them."""

from __future__ import annotations

from typing import Final

_CYCLE: Final = (
    "cycle.leased",
    "cycle.before_commit",
    "commit.before_write",
    "commit.after_write",
    "cycle.after_commit",
)
_ASLEEP_IN_CYCLE: Final = ("cycle.leased", "cycle.before_commit")
# Every twenty seconds, before whichever of the two steps comes first.
_OWNER: Final = ("ownership.before_write", "ownership.after_write")

POINTS: Final = {
    "web": ("submit.before_commit", "submit.after_commit"),
    "sweep": ("sweep.before_hints",),
    "relay": ("relay.before_publish", "relay.after_publish"),
    "cycle": _CYCLE,
    "freed": _CYCLE,
    "execute": (
        "execute.leased",
        *_OWNER,
        "execute.before_remove",
        "kubernetes.after_delete",
        "execute.after_remove",
        "execute.before_ensure",
        "kubernetes.after_create",
        "kubernetes.locked",
        "kubernetes.after_bind",
        "execute.after_ensure",
        "execute.after_note",
        "execute.after_dissolve",
        "execute.before_resize",
        "kubernetes.after_resize",
        "execute.after_resize",
    ),
    "observe": (
        "observe.leased",
        *_OWNER,
        "observe.before_apply",
        "observe.before_commit",
        "observe.after_chunk",
        "observe.before_cursor",
    ),
}
"""Points by step, in the order in which a process comes by."""

ASLEEP: Final = {
    "cycle": _ASLEEP_IN_CYCLE,
    "freed": _ASLEEP_IN_CYCLE,
    "execute": (
        "execute.leased",
        *_OWNER,
        "execute.before_ensure",
        "kubernetes.after_create",
        "kubernetes.locked",
        "execute.after_ensure",
        "execute.before_remove",
    ),
    "observe": ("observe.leased", *_OWNER, "observe.before_apply", "observe.before_cursor"),
}
"""The points at which a worker that wakes up late finds that another has done its work."""

CALLING: Final = {
    "execute": (
        "execute.leased",
        "ownership.before_write",
        "execute.before_remove",
        "kubernetes.after_delete",
        "execute.before_ensure",
        "kubernetes.after_create",
        "kubernetes.locked",
        "kubernetes.after_bind",
    ),
    "observe": ("observe.leased", "ownership.before_write"),
}
"""The points at which the next call goes to an API server that was just killed or stopped."""
