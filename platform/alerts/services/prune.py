"""Deletes old alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from alerts.models import Alert, AlertState, Notification, Silence, UserMessage

RETENTION: Final = timedelta(days=90)
_BATCH: Final = 1_000
_MESSAGES: Final = 20_000
"""The most messages that an hourly run deletes: each preemption and each recipient of an alert makes one."""


def prune_alerts(now: datetime) -> int:
    """Delete alerts that were resolved 90 days ago, silences that ended then, and messages and notifications
    about jobs of that age.

    Returns the number of rows.

    An alert with an unsent notification is kept.
    """
    old = Alert.unscoped.filter(state=AlertState.RESOLVED, resolved_at__lt=now - RETENTION)
    ids = old.exclude(notifications__state="pending").order_by("pk").values_list("pk", flat=True)[:_BATCH]
    of_jobs = Notification.unscoped.filter(job__isnull=False, state="sent", sent_at__lt=now - RETENTION)
    deleted = of_jobs.delete()[0] + Alert.unscoped.filter(pk__in=list(ids)).delete()[0]
    messages = UserMessage.unscoped.filter(created_at__lt=now - RETENTION).order_by("created_at")
    keys = list(messages.values_list("pk", flat=True)[:_MESSAGES])
    deleted += UserMessage.unscoped.filter(pk__in=keys).delete()[0]
    return deleted + Silence.unscoped.filter(ends_at__lt=now - RETENTION).delete()[0]
