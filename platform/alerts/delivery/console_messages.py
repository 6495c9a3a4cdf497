"""Delivers notifications of alerts as messages within the console."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alerts.delivery.message_store import create_messages, may_view_alert
from alerts.delivery.message_text import describe_job_event
from alerts.delivery.messages import ChannelMessage
from alerts.models import Alert, MessageKind, Notification, NotificationChannel, UserMessage
from foundation.sql import row_scope
from scheduling.models import Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


def split_names(address: str) -> list[str]:
    """Return the usernames of an address, in order."""
    return list(dict.fromkeys(name.strip() for name in address.split(",") if name.strip()))


@row_scope.whole()
def send_console_messages(channel: NotificationChannel, message: ChannelMessage, address: str) -> int:
    """Create a message for each recipient about each alert or job that they may see.

    Returns how many recipients exist. A recipient who may not view an alert or job gets no message about it.
    """
    users = list(User.objects.filter(username__in=split_names(address), is_active=True).order_by("pk"))
    create_messages(_write_messages(channel, message, users))
    return len(users)


def _write_messages(
    channel: NotificationChannel, message: ChannelMessage, users: Sequence[User]
) -> Iterator[UserMessage]:
    for user in users:
        if not message.items:
            yield UserMessage(
                user=user,
                tenant=channel.tenant,
                kind=MessageKind.ALERT,
                event="test",
                source=f"test/{message.message_id}",
            )
        for item in message.items:
            alert, job = item.notification.alert, item.notification.job
            if alert is not None and may_view_alert(user, alert):
                yield _write(user, item.notification, alert)
            if job is not None and permissions.has_permission(user, Permission.JOB_VIEW, job.workspace):
                yield from _write_job(user, item.notification, job)


def _write_job(user: User, notification: Notification, job: Job) -> Iterator[UserMessage]:
    """Yield the message about the job, unless the user already has it as a watcher of the job."""
    message = describe_job_event(job, notification.event)
    message.user, message.source = user, f"job/{job.pk}/{notification.event}"
    own = UserMessage.unscoped.filter(
        user=user, path=message.path, event=message.event, source__startswith="watch/"
    )
    if not own.exists():
        yield message


def _write(user: User, notification: Notification, alert: Alert) -> UserMessage:
    return UserMessage(
        user=user,
        tenant_id=alert.tenant_id,
        kind=MessageKind.ALERT,
        event=notification.event,
        facts={
            "rule": alert.rule_name,
            "metric": alert.metric,
            "subject": alert.label,
            "severity": alert.severity,
        },
        path=alert.path,
        # A user reached by two channels gets one message about an event.
        source=f"alert/{alert.pk}/{notification.event}/{notification.number}",
    )
