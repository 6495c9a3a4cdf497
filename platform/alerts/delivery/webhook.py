"""The body of a webhook, in the format of Prometheus' Alertmanager (version 4), and its signature."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from alerts.delivery.messages import ChannelMessage, Item, describe_condition, format_value
from alerts.models import Alert, NotificationEvent
from scheduling.models import Job

SIGNATURE: Final = "X-Allotment-Signature"
TIMESTAMP: Final = "X-Allotment-Timestamp"
_NEVER: Final = "0001-01-01T00:00:00Z"


def write_webhook(message: ChannelMessage, *, receiver: str) -> bytes:
    """Return the body; the overall `status` is `firing` if any of its alerts fires."""
    alerts = [_describe_item(item) for item in message.items]
    firing = any(alert["status"] == "firing" for alert in alerts)
    body = {
        "version": "4",
        "groupKey": message.message_id,
        "truncatedAlerts": 0,
        "status": "firing" if firing else "resolved",
        "receiver": receiver,
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": settings.ALLOTMENT_URL,
        "alerts": alerts,
    }
    return json.dumps(body, ensure_ascii=False).encode()


def sign_webhook(body: bytes, secret: str, *, now_s: int) -> dict[str, str]:
    """Return the headers that prove the sender: HMAC-SHA256 over "timestamp.body"; none without a secret."""
    if not secret:
        return {}
    digest = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
    return {TIMESTAMP: str(now_s), SIGNATURE: f"sha256={digest}"}


def _describe_item(item: Item) -> dict[str, Any]:
    alert, job = item.notification.alert, item.notification.job
    if alert is not None:
        return _alert(item, alert)
    if job is not None:
        return _job(item, job)
    raise ValueError("a notification is about an alert or a job")


def _job(item: Item, job: Job) -> dict[str, Any]:
    """Return the event of a watched job as an alert that fires from its start to its end."""
    notification = item.notification
    ended = notification.event != NotificationEvent.STARTED
    return {
        "status": "resolved" if ended else "firing",
        "labels": {
            "alertname": "WatchedJob",
            "severity": "info",
            "event": notification.event,
            "subject": str(job.pk),
            "subject_name": f"{job.workspace.slug}/{job.name}",
        },
        "annotations": {"summary": item.title, "description": "\n".join(item.lines), "value": ""},
        "startsAt": _time(job.started_at or notification.created_at),
        "endsAt": _time(job.finished_at or notification.created_at) if ended else _NEVER,
        "generatorURL": item.url,
        "fingerprint": hashlib.sha256(f"job/{job.pk}".encode()).hexdigest()[:16],
    }


def _alert(item: Item, alert: Alert) -> dict[str, Any]:
    notification = item.notification
    resolved = notification.event == NotificationEvent.RESOLVED
    labels = {
        "alertname": alert.rule_name,
        "severity": alert.severity,
        "metric": alert.metric,
        "subject": alert.subject,
        "subject_name": alert.label,
    }
    return {
        "status": "resolved" if resolved else "firing",
        "labels": labels,
        "annotations": {
            "summary": item.title,
            "description": "\n".join(item.lines) if item.is_custom else describe_condition(alert),
            "value": format_value(alert.metric, notification.value),
        },
        "startsAt": _time(alert.fired_at),
        "endsAt": _time(alert.resolved_at) if resolved else _NEVER,
        "generatorURL": item.url,
        "fingerprint": hashlib.sha256(f"{alert.rule_id}/{alert.subject}".encode()).hexdigest()[:16],
    }


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at is not None else _NEVER
