"""The order of a queue's pending jobs as text."""

from __future__ import annotations

from django.utils.translation import gettext as _

from foundation.core.sentences import join_sentences
from quotas.models import Queue, Strategy


def describe_queue_order(queue: Queue) -> str:
    """Return how a queue orders its jobs, and whether later jobs can start first."""
    order = (
        _(
            "Ordered by recent usage per user, lowest first, then priority and submission time. Positions "
            "change as jobs start."
        )
        if queue.user_shares
        else _("Ordered by priority, then submission time.")
    )
    if queue.strategy == Strategy.STRICT:
        return order
    overtaking = _("Jobs behind can start first if they fit.")
    return join_sentences([order, overtaking])
