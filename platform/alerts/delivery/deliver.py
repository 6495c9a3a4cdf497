"""Sends pending notifications, several in one message, and keeps what a channel does not accept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import F, OuterRef, Q, Subquery

from alerts.delivery.messages import ChannelMessage, write_message
from alerts.delivery.templates import MessageTemplates
from alerts.delivery.transports import LIMITS, DeliveryError, measure_message, send_message
from alerts.models import (
    ChannelKind,
    Notification,
    NotificationChannel,
    NotificationEvent,
    NotificationState,
)
from clusters.models import Cluster

log = structlog.get_logger(__name__)
_CLAIM: Final = timedelta(seconds=60)
"""How long a channel stays blocked after a process died while it sent through the channel."""
_RUN_S: Final = 30.0
"""A run that took so long starts no further message; the next run continues."""
_IN_ONE: Final = 100
_RETRY: Final = timedelta(seconds=5)
_RETRY_MAX: Final = timedelta(minutes=15)
_ERROR_MAX: Final = 300
JOB_NEWS: Final = timedelta(days=1)
"""The age at which an unsent notification about a watched job is deleted."""


def deliver_notifications(now: datetime) -> int:
    """Send one message to each channel that has pending notifications and is due; returns how many were sent.

    A notification stays pending until its channel has accepted it. After a failure the channel is tried again
    after 5 s, 10 s, 20 s and so on up to 15 min, and the notifications created meanwhile are sent in as few
    messages as the channel takes. A process that dies after sending and before recording it sends the same
    message again, with the same message id.
    """
    pending = Notification.unscoped.filter(state=NotificationState.PENDING).values("channel")
    due = NotificationChannel.unscoped.filter(_is_free(now), enabled=True, pk__in=pending)
    ends, sent = time.monotonic() + _RUN_S, 0
    # Channels that fail come last: waiting for them must not delay the others.
    for channel in due.order_by("failures", "pk"):
        if time.monotonic() >= ends:
            break
        if _is_rested(channel, now):
            sent += _deliver(channel, now)
    return sent


def _is_free(now: datetime) -> Q:
    return Q(Q(sending_until__isnull=True) | Q(sending_until__lte=now)) & Q(
        Q(retry_at__isnull=True) | Q(retry_at__lte=now)
    )


def _is_rested(channel: NotificationChannel, now: datetime) -> bool:
    return channel.sent_at is None or now - channel.sent_at >= LIMITS[channel.kind].interval


def _deliver(channel: NotificationChannel, now: datetime) -> int:
    claimed = NotificationChannel.unscoped.filter(_is_free(now), pk=channel.pk, enabled=True)
    if not claimed.update(sending_until=now + _CLAIM):
        return 0
    _drop_old_events(channel, now)
    chosen = _choose(channel)
    if not chosen:
        NotificationChannel.unscoped.filter(pk=channel.pk).update(sending_until=None)
        return 0
    message = _write(channel, chosen)
    try:
        send_message(channel, message, now=now)
    except Exception as error:
        # After any error the channel must not stay claimed, and its notifications must not be lost.
        if not isinstance(error, DeliveryError):
            log.exception("notification not sent", channel=str(channel.pk))
        _note_failure(channel, error, now)
        if isinstance(error, DeliveryError) and error.refused:
            Notification.unscoped.filter(pk__in=[each.pk for each in chosen]).update(message_id="")
        return 0
    _note_success(channel, chosen, now)
    return 1


def _drop_old_events(channel: NotificationChannel, now: datetime) -> None:
    """Delete the channel's unsent notifications about jobs that are older than `JOB_NEWS`."""
    old = channel.notifications.filter(
        state=NotificationState.PENDING, job__isnull=False, created_at__lt=now - JOB_NEWS
    )
    if channel.kind == ChannelKind.WEBHOOK:
        # An end is sent however late, because the alert of the job fires in its receiver until then.
        old = old.filter(event=NotificationEvent.STARTED)
    old.delete()


def _choose(channel: NotificationChannel) -> list[Notification]:
    """Return the notifications of the next message, oldest first, and set its id on them.

    Notifications that already have an id were sent before by a process that did not record it: they stay
    together.
    """
    waiting = channel.notifications.filter(state=NotificationState.PENDING).select_related(
        "alert__rule", "alert__tenant", "job__workspace"
    )
    clusters = Cluster.unscoped.filter(pk=OuterRef("alert__cluster_id")).values("name")
    waiting = waiting.annotate(cluster_name=Subquery(clusters)).order_by("created_at", "pk")
    first = waiting.first()
    if first is None:
        return []
    if first.message_id:
        return list(waiting.filter(message_id=first.message_id))
    chosen = _fit(channel, list(waiting.filter(message_id="")[:_IN_ONE]))
    message_id = hashlib.sha256("/".join(str(each.pk) for each in chosen).encode()).hexdigest()[:32]
    Notification.unscoped.filter(pk__in=[each.pk for each in chosen]).update(message_id=message_id)
    for each in chosen:
        each.message_id = message_id
    return chosen


def _fit(channel: NotificationChannel, waiting: Sequence[Notification]) -> list[Notification]:
    """Return as many of the first notifications as one message of the channel can carry, at least one."""
    low, high = 1, len(waiting)
    limit = LIMITS[channel.kind].body_bytes
    while low < high:
        middle = (low + high + 1) // 2
        message = _write_as(channel, waiting[:middle], "0" * 32)
        if measure_message(channel, message) <= limit:
            low = middle
        else:
            high = middle - 1
    return list(waiting[:low])


def _write(channel: NotificationChannel, chosen: Sequence[Notification]) -> ChannelMessage:
    return _write_as(channel, chosen, chosen[0].message_id)


def _write_as(
    channel: NotificationChannel, chosen: Sequence[Notification], message_id: str
) -> ChannelMessage:
    return write_message(
        chosen,
        message_id=message_id,
        language=channel.language,
        templates=MessageTemplates.of_channel(channel),
    )


@transaction.atomic
def _note_success(channel: NotificationChannel, sent: Sequence[Notification], now: datetime) -> None:
    Notification.unscoped.filter(pk__in=[each.pk for each in sent]).update(
        state=NotificationState.SENT, sent_at=now
    )
    NotificationChannel.unscoped.filter(pk=channel.pk).update(
        sending_until=None, sent_at=now, retry_at=None, failing_since=None, failures=0, error=""
    )


def _note_failure(channel: NotificationChannel, error: Exception, now: datetime) -> None:
    wait = min(_RETRY * 2 ** min(channel.failures, 10), _RETRY_MAX)
    NotificationChannel.unscoped.filter(pk=channel.pk).update(
        sending_until=None,
        retry_at=now + wait,
        failing_since=channel.failing_since or now,
        failures=F("failures") + 1,
        error=(str(error) or type(error).__name__)[:_ERROR_MAX],
    )
