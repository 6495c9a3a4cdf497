"""The settings of queues and the sharing of unused quota, in words."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from quotas.models import Queue

Choices = list[tuple[str, str | Promise]]
SHARING: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    "fair": (
        gettext_lazy("Fair"),
        gettext_lazy("The tenant with the lowest share of borrowed quota is next."),
    ),
    "classical": (
        gettext_lazy("Classical"),
        gettext_lazy("The job with the highest priority is next, then the oldest."),
    ),
}
STRATEGIES: Final[Choices] = [
    ("best-effort-fifo", gettext_lazy("Best-effort FIFO")),
    ("strict-fifo", gettext_lazy("Strict FIFO")),
]
ALLOCATION_MODES: Final[Choices] = [
    ("dynamic", gettext_lazy("Borrowing enabled")),
    ("static", gettext_lazy("Nominal quota only")),
]
PREEMPT_OTHERS: Final[Choices] = [
    ("never", gettext_lazy("Never")),
    ("lower-priority", gettext_lazy("Lower priority")),
    ("any", gettext_lazy("Any priority")),
]
PREEMPT_WITHIN: Final[Choices] = [
    *PREEMPT_OTHERS[:2],
    ("lower-or-newer-equal-priority", gettext_lazy("Lower or newer equal priority")),
]
_WITHIN: Final = {
    "lower-priority": gettext_lazy("Jobs of the queue with lower priority can be preempted."),
    "lower-or-newer-equal-priority": gettext_lazy(
        "Jobs of the queue with lower priority, or newer ones with equal priority, can be preempted."
    ),
}
_RECLAIM: Final = {
    "lower-priority": gettext_lazy("Lent quota is reclaimed from borrowers with lower priority."),
    "any": gettext_lazy("Lent quota is reclaimed from borrowers with any priority."),
}
_WHILE_BORROWING: Final = {
    "lower-priority": gettext_lazy("To borrow, jobs of borrowers with lower priority can be preempted."),
    "any": gettext_lazy("To borrow, jobs of borrowers with any priority can be preempted."),
}


def describe_preemption(queue: Queue) -> list[str]:
    """Return the preemption policy of a queue as sentences."""
    if not queue.preemption:
        return [_("Jobs of this queue preempt no jobs.")]
    rules = (
        (_WITHIN, queue.within_queue),
        (_RECLAIM, queue.reclaim),
        (_WHILE_BORROWING, queue.while_borrowing),
    )
    return [str(words[rule]) for words, rule in rules if rule in words] or [
        _("Jobs of this queue preempt no jobs.")
    ]
