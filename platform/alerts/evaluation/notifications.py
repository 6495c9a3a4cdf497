"""Decides which notifications have to be sent.

Each run creates the missing notifications, so a failed run delays notifications of alerts that still fire.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, Q

from alerts.evaluation.transitions import SEND_AGAIN_AFTER
from alerts.metrics.catalogue import CLUSTER_UNREACHABLE
from alerts.metrics.subject_names import is_same_subject
from alerts.models import (
    UNEVALUATED,
    Alert,
    AlertSeverity,
    AlertState,
    Notification,
    NotificationChannel,
    NotificationEvent,
    NotificationState,
    Silence,
)
from clusters.models import Cluster

_RESOLVED_WITHIN: Final = timedelta(days=1)
"""The age of a resolution at which no notification of it is created any more."""
SILENCED: Final = "silenced"
INHIBITED: Final = "inhibited"
_BATCH: Final = 200
_RANK: Final = {AlertSeverity.INFO: 0, AlertSeverity.WARNING: 1, AlertSeverity.CRITICAL: 2}


@dataclass(frozen=True, slots=True)
class _Sent:
    """The last firing notification or reminder that one channel has of one alert."""

    at: datetime
    number: int
    unsent: int


@transaction.atomic
def create_notifications(now: datetime) -> int:
    """Create the notifications that firing and resolved alerts lack and return how many.

    Suppressed alerts create none; when a silence ends, an alert that still fires creates one. A channel gets
    at most one firing notification about one subject of a rule in `SEND_AGAIN_AFTER`. A resolution is sent to
    the channels that got a notification of the firing.
    """
    firing = list(
        Alert.unscoped.filter(state=AlertState.FIRING)
        .select_related("rule__tenant")
        .prefetch_related("rule__channels")
        .order_by("pk")
    )
    note_suppression(firing, now)
    sent, lately, unevaluated = _read_sent(), _read_subjects_sent(now), _find_unevaluated(firing)
    wanted = [
        notification
        for alert in firing
        if not alert.suppressed
        for channel in get_channels(alert)
        for notification in _choose(alert, channel, sent.get((channel.pk, alert.pk)), lately, now)
        if notification.event != NotificationEvent.REMINDER or alert.pk not in unevaluated
    ]
    wanted += _choose_resolved(now)
    Notification.unscoped.bulk_create(wanted, ignore_conflicts=True)
    return len(wanted)


def get_channels(alert: Alert) -> list[NotificationChannel]:
    """Return the enabled channels of an alert's rule."""
    return [] if alert.rule is None else [each for each in alert.rule.channels.all() if each.enabled]


def _read_sent() -> dict[tuple[uuid.UUID, uuid.UUID], _Sent]:
    """Read one row for each channel and firing alert, even if the notification was repeated."""
    rows = (
        Notification.unscoped.filter(alert__state=AlertState.FIRING)
        .exclude(event=NotificationEvent.RESOLVED)
        .order_by()
        .values_list("channel_id", "alert_id")
        .annotate(
            last=Max("created_at"),
            highest=Max("number"),
            unsent=Count("pk", filter=Q(state=NotificationState.PENDING)),
        )
    )
    return {(channel, alert): _Sent(*facts) for channel, alert, *facts in rows}


def _read_subjects_sent(now: datetime) -> set[tuple[uuid.UUID, uuid.UUID | None, str]]:
    rows = Notification.unscoped.filter(event=NotificationEvent.FIRING, created_at__gt=now - SEND_AGAIN_AFTER)
    return set(rows.order_by().values_list("channel_id", "alert__rule_id", "alert__subject"))


def _choose(
    alert: Alert,
    channel: NotificationChannel,
    sent: _Sent | None,
    lately: set[tuple[uuid.UUID, uuid.UUID | None, str]],
    now: datetime,
) -> Iterator[Notification]:
    if sent is None:
        if (channel.pk, alert.rule_id, alert.subject) not in lately:
            yield _make(alert, channel.pk, NotificationEvent.FIRING)
        return
    repeat_s = alert.rule.repeat_s if alert.rule is not None else None
    # An unsent notification is not repeated.
    if repeat_s is not None and not sent.unsent and now - sent.at >= timedelta(seconds=repeat_s):
        yield _make(alert, channel.pk, NotificationEvent.REMINDER, number=sent.number + 1)


def _find_unevaluated(firing: Sequence[Alert]) -> set[uuid.UUID]:
    """Find the alerts whose rule or cluster the last run did not evaluate, so that their value is old."""
    unread = {name for alert in firing if alert.rule is not None for name in alert.rule.unread_clusters}
    clusters = Cluster.unscoped.filter(name__in=unread).values_list("pk", "name") if unread else ()
    names: dict[uuid.UUID | None, str] = dict(clusters)
    return {
        alert.pk
        for alert in firing
        if alert.rule is not None
        and (alert.rule.error in UNEVALUATED or names.get(alert.cluster_id) in alert.rule.unread_clusters)
    }


def _choose_resolved(now: datetime) -> list[Notification]:
    notified = Notification.unscoped.filter(
        event=NotificationEvent.FIRING,
        channel__enabled=True,
        alert__state=AlertState.RESOLVED,
        alert__resolved_at__gt=now - _RESOLVED_WITHIN,
    )
    known = Notification.unscoped.filter(
        event=NotificationEvent.RESOLVED, alert=OuterRef("alert"), channel=OuterRef("channel")
    )
    lacking = notified.filter(~Exists(known)).select_related("alert").order_by("pk")
    return [
        _make(row.alert, row.channel_id, NotificationEvent.RESOLVED)
        for row in lacking
        if row.alert is not None
    ]


def _make(alert: Alert, channel_id: uuid.UUID, event: NotificationEvent, *, number: int = 0) -> Notification:
    return Notification(channel_id=channel_id, alert=alert, event=event, number=number, value=alert.value)


def note_suppression(firing: Sequence[Alert], now: datetime) -> None:
    """Store for each firing alert whether it is silenced or inhibited."""
    silences = list(
        Silence.unscoped.filter(starts_at__lte=now, ends_at__gt=now).select_related("tenant").order_by("pk")
    )
    paths = dict(
        Alert.unscoped.filter(state=AlertState.FIRING, tenant__isnull=False).values_list("pk", "tenant__path")
    )
    down = {alert.cluster_id for alert in firing if alert.metric == CLUSTER_UNREACHABLE}
    silenced = {
        alert.pk
        for alert in firing
        if any(matches_silence(silence, alert, paths.get(alert.pk, "")) for silence in silences)
    }
    louder: defaultdict[tuple[object, ...], list[Alert]] = defaultdict(list)
    for alert in firing:
        if alert.pk not in silenced:
            louder[_key(alert)].append(alert)
    changed = []
    for alert in firing:
        found = SILENCED if alert.pk in silenced else ""
        if not found and _is_inhibited(alert, down, louder[_key(alert)]):
            found = INHIBITED
        if found != alert.suppressed:
            alert.suppressed = found
            changed.append(alert)
    Alert.unscoped.bulk_update(changed, ["suppressed"], batch_size=_BATCH)


def _key(alert: Alert) -> tuple[object, ...]:
    """Return the key of alerts that inhibit each other: one owner, so no tenant mutes another's alerts."""
    return (alert.rule.tenant_id if alert.rule is not None else None, alert.metric, alert.subject)


def _is_inhibited(alert: Alert, down: set[uuid.UUID | None], others: Sequence[Alert]) -> bool:
    """Return whether the cluster is down, or each of the alert's channels also gets a more severe alert."""
    if alert.metric != CLUSTER_UNREACHABLE and alert.cluster_id is not None and alert.cluster_id in down:
        return True
    own = {channel.pk for channel in get_channels(alert)}
    return any(
        _RANK[AlertSeverity(other.severity)] > _RANK[AlertSeverity(alert.severity)]
        and own <= {channel.pk for channel in get_channels(other)}
        for other in others
    )


def matches_silence(silence: Silence, alert: Alert, path: str) -> bool:
    """Return whether a silence covers an alert; `path` is that of the alert's tenant.

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
        and (
            not silence.subject
            or silence.subject == alert.subject
            or is_same_subject(alert.metric, silence.subject, alert.label)
        )
    )
