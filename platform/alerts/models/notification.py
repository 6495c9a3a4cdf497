"""Notifications to send, and their outcome."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from alerts.models.alert import Alert
from alerts.models.channel import NotificationChannel
from foundation.models import BaseModel
from scheduling.models import Job


class NotificationEvent(models.TextChoices):
    FIRING = "firing", _("Firing")
    REMINDER = "reminder", _("Reminder")
    RESOLVED = "resolved", _("Resolved")
    STARTED = "started", pgettext_lazy("event", "Started")
    SUCCEEDED = "succeeded", pgettext_lazy("event", "Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Canceled")


class NotificationState(models.TextChoices):
    PENDING = "pending", _("Unsent")
    SENT = "sent", _("Sent")


class Notification(BaseModel):
    """One event of one alert or watched job for one channel, pending until the channel has accepted it.

    `number` counts the reminders. `message_id` is the id of the message with this notification, and stays the
    same if that message is sent again after a crash.
    """

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="notifications")
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, null=True, related_name="notifications")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, related_name="+")
    event = models.CharField(max_length=10, choices=NotificationEvent.choices)
    number = models.PositiveIntegerField(default=0)
    value = models.FloatField(null=True)
    state = models.CharField(
        max_length=10, choices=NotificationState.choices, default=NotificationState.PENDING
    )
    message_id = models.CharField(max_length=64, blank=True, default="")
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "alert", "event", "number"], name="notification_once"),
            models.UniqueConstraint(
                fields=["channel", "job", "event"],
                condition=models.Q(job__isnull=False),
                name="job_notification_once",
            ),
            models.CheckConstraint(
                condition=models.Q(alert__isnull=False, job__isnull=True)
                | models.Q(alert__isnull=True, job__isnull=False),
                name="notification_of_alert_or_job",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["channel", "created_at"],
                condition=models.Q(state="pending"),
                name="notification_pending",
            )
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.alert_id or self.job_id}"
