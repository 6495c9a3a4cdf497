"""Decides which notifications have to be sent.

Each run creates what is missing, so a run that fails loses nothing.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from alerts.evaluation.transitions import REOPEN_WITHIN
from alerts.metrics.catalogue import CLUSTER_UNREACHABLE
from alerts.models import (
    Alert,
    AlertState,
    Notification,
    NotificationChannel,
    NotificationEvent,
    NotificationState,
    Severity,
    Silence,
)

_RESOLVED_WITHIN: Final = timedelta(days=1)
"""A resolution that nobody could create for so long is no longer news."""
SILENCED: Final = "silenced"
INHIBITED: Final = "inhibited"
_RANK: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


@dataclass
class _Sent:
    """What one channel has of one alert."""

    firing: list[Notification] = field(default_factory=list)
    resolved: set[int] = field(default_factory=set)

    @property
    def last(self) -> Notification | None:
        return self.firing[-1] if self.firing else None


@transaction.atomic
def create_notifications(now: datetime) -> int:
    """Create the notifications that firing and resolved alerts lack and return how many.

    Suppressed alerts create none; when a silence ends, an alert that still fires creates one. An alert
    creates at most one notification of its firing in `REOPEN_WITHIN`.
    """
    firing = list(_with_channels(Alert.unscoped.filter(state=AlertState.FIRING)))
    note_suppression(firing, now)
    resolved = _with_channels(
        Alert.unscoped.filter(state=AlertState.RESOLVED, resolved_at__gt=now - _RESOLVED_WITHIN)
    )
    alerts = [*firing, *resolved]
    sent = _read_sent(alerts)
    wanted = [
        notification
        for alert in alerts
        for channel in _channels(alert)
        for notification in _choose(alert, channel, sent[channel.pk, alert.pk], now)
    ]
    Notification.unscoped.bulk_create(wanted, ignore_conflicts=True)
    return len(wanted)


def _with_channels(alerts: QuerySet[Alert]) -> QuerySet[Alert]:
    return alerts.select_related("rule__tenant").prefetch_related("rule__channels").order_by("pk")


def _channels(alert: Alert) -> Iterator[NotificationChannel]:
    if alert.rule is not None:
        yield from (channel for channel in alert.rule.channels.all() if channel.enabled)


def _read_sent(alerts: Iterable[Alert]) -> defaultdict[tuple[object, object], _Sent]:
    found: defaultdict[tuple[object, object], _Sent] = defaultdict(_Sent)
    rows = Notification.unscoped.filter(alert__in=[alert.pk for alert in alerts]).order_by("created_at", "pk")
    for row in rows:
        of = found[row.channel_id, row.alert_id]
        if row.event == NotificationEvent.RESOLVED:
            of.resolved.add(row.episode)
        else:
            of.firing.append(row)
    return found


def _choose(alert: Alert, channel: NotificationChannel, sent: _Sent, now: datetime) -> Iterator[Notification]:
    last = sent.last
    of_episode = last is not None and last.episode == alert.episode
    if alert.state == AlertState.RESOLVED:
        if of_episode and alert.episode not in sent.resolved:
            yield _make(alert, channel, NotificationEvent.RESOLVED)
    elif alert.suppressed:
        return
    elif not of_episode:
        if last is None or now - last.created_at >= REOPEN_WITHIN:
            yield _make(alert, channel, NotificationEvent.FIRING)
    elif last is not None and _is_reminder_due(alert, last, now):
        yield _make(alert, channel, NotificationEvent.REMINDER, number=last.number + 1)


def _is_reminder_due(alert: Alert, last: Notification, now: datetime) -> bool:
    """Tell whether the repeat interval is over; what was not sent yet is not repeated."""
    repeat_s = alert.rule.repeat_s if alert.rule is not None else None
    if repeat_s is None or last.state != NotificationState.SENT:
        return False
    return now - last.created_at >= timedelta(seconds=repeat_s)


def _make(
    alert: Alert, channel: NotificationChannel, event: NotificationEvent, *, number: int = 0
) -> Notification:
    return Notification(
        channel=channel, alert=alert, event=event, episode=alert.episode, number=number, value=alert.value
    )


def note_suppression(firing: Iterable[Alert], now: datetime) -> None:
    """Store for each firing alert whether it is silenced or inhibited."""
    alerts = list(firing)
    silences = list(
        Silence.unscoped.filter(starts_at__lte=now, ends_at__gt=now).select_related("tenant").order_by("pk")
    )
    paths = dict(
        Alert.unscoped.filter(pk__in=[alert.pk for alert in alerts], tenant__isnull=False).values_list(
            "pk", "tenant__path"
        )
    )
    down = {alert.cluster_id for alert in alerts if alert.metric == CLUSTER_UNREACHABLE}
    worst: dict[tuple[str, str], int] = {}
    for alert in alerts:
        key = (alert.metric, alert.subject)
        worst[key] = max(worst.get(key, 0), _RANK[Severity(alert.severity)])
    changed = []
    for alert in alerts:
        found = _suppression(alert, paths.get(alert.pk, ""), silences, down, worst)
        if found != alert.suppressed:
            alert.suppressed = found
            changed.append(alert)
    Alert.unscoped.bulk_update(changed, ["suppressed"])


def _suppression(
    alert: Alert,
    path: str,
    silences: list[Silence],
    down: set[uuid.UUID | None],
    worst: dict[tuple[str, str], int],
) -> str:
    if any(matches_silence(silence, alert, path) for silence in silences):
        return SILENCED
    if alert.metric != CLUSTER_UNREACHABLE and alert.cluster_id is not None and alert.cluster_id in down:
        return INHIBITED
    lower = _RANK[Severity(alert.severity)] < worst[alert.metric, alert.subject]
    return INHIBITED if lower else ""


def matches_silence(silence: Silence, alert: Alert, path: str) -> bool:
    """Tell whether a silence covers an alert; `path` is that of the alert's tenant.

    A silence of a tenant covers subjects of that tenant and of those below, for rules of these tenants only:
    a rule of a parent or of the platform is not silenced from below.
    """
    if silence.tenant is not None:
        owner = alert.rule.tenant if alert.rule is not None else None
        above = silence.tenant.path
        if owner is None or not owner.path.startswith(above) or not path.startswith(above):
            return False
    return (
        (silence.rule_id is None or silence.rule_id == alert.rule_id)
        and (not silence.severity or silence.severity == alert.severity)
        and (not silence.subject or silence.subject in (alert.subject, alert.label))
    )
