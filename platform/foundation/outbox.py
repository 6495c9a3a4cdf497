"""Hints: rows that ask for a task to run soon.

A service inserts a hint in the transaction of its change; the relay publishes it after commit and
deletes it. A request never talks to the broker, so a hung broker cannot hang a request, and a lost
message costs only time: every promise is kept by a sweep over rows as well.

PostgreSQL tells the relay of each commit that has a hint in it; elsewhere, and when that fails, the relay
looks by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Final

from django.db import connection, transaction

from foundation import clock, faults
from foundation.models import Hint


class Topic(StrEnum):
    """What is to be looked at. The key names the row: a cell or a cluster."""

    CYCLE = "cycle"
    EXECUTE = "execute"
    OBSERVE = "observe"
    DELEGATE = "delegate"


CHANNEL: Final = "allotment_hint"
_LATER: Final = "-later"
Publisher = Callable[[str], None]
_publishers: dict[str, Publisher] = {}


def hint(topic: Topic, key: uuid.UUID | str, *, delay_s: float = 0.0) -> None:
    """Ask for `topic` to be worked on for `key`, not before `delay_s` seconds from now.

    Coalesced: while one is pending, a second changes nothing but that it may bring it forward. What is wanted
    at once and what is wanted later are two hints, so that neither waits for the other.
    """
    name = topic.value + (_LATER if delay_s > 0 else "")
    row = Hint(topic=name, key=str(key), not_before=clock.now() + timedelta(seconds=delay_s))
    Hint.unscoped.bulk_create([row], ignore_conflicts=True)
    if delay_s > 0:
        later = Hint.unscoped.filter(topic=name, key=str(key), not_before__gt=row.not_before)
        later.update(not_before=row.not_before)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")


def register(topic: Topic, publisher: Publisher) -> None:
    """Say which task a topic wakes; called once from the owner's `AppConfig.ready()`."""
    _publishers[topic.value] = publisher


def due_in() -> float | None:
    """Seconds until the next hint is due, zero or less when one is; None when there is none."""
    earliest = Hint.unscoped.order_by("not_before").values_list("not_before", flat=True).first()
    return (earliest - clock.now()).total_seconds() if earliest else None


def publish_due(limit: int = 200) -> int:
    """Publish hints that are due and delete them; returns how many.

    Deleted before publishing and in the same transaction: if the broker fails, the deletion is rolled
    back. If the process dies after the broker took it, the hint is published twice, which is harmless.
    """
    # Looked at first without a transaction: embedded, opening one takes the one write lock.
    if not Hint.unscoped.filter(not_before__lte=clock.now()).exists():
        return 0
    with transaction.atomic():
        due = Hint.unscoped.filter(not_before__lte=clock.now()).order_by("id")
        if connection.features.has_select_for_update_skip_locked:
            due = due.select_for_update(skip_locked=True)
        rows = list(due[:limit])
        Hint.unscoped.filter(id__in=[row.id for row in rows]).delete()
        faults.point("relay.before_publish")
        for row in rows:
            _publishers[row.topic.removesuffix(_LATER)](row.key)
        faults.point("relay.after_publish")
    return len(rows)
