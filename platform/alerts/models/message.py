"""Messages to users within the console, and users' requests for messages about jobs."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from foundation.models import BaseModel
from scheduling.models import Job
from tenants.models import Tenant


class MessageKind(models.TextChoices):
    ALERT = "alert", _("Alert")
    JOB = "job", _("Job")
    PREEMPTION = "preemption", _("Preemption")
    REQUEST = "request", _("Quota request")


class UserMessage(BaseModel):
    """A message to one user about a subject that the user may see.

    The text is made from `kind`, `event` and `facts` in the language of the reader. `tenant` is that of the
    subject, empty for the platform: a user without the right to see it no longer sees the message. `source`
    names the event, so that one event gives a user one message. `path` is the page of the subject.
    `mail_due`: the message has to be sent to the user's email address, too.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="messages")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=10, choices=MessageKind.choices)
    event = models.CharField(max_length=20)
    facts = models.JSONField(default=dict, blank=True)
    path = models.CharField(max_length=300, blank=True, default="")
    source = models.CharField(max_length=120)
    read_at = models.DateTimeField(null=True, blank=True)
    mail_due = models.BooleanField(default=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "source"], name="message_once_per_user"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["user", "-created_at"], name="message_by_user_and_time"),
            models.Index(fields=["user"], condition=Q(read_at__isnull=True), name="message_unread"),
            models.Index(fields=["created_at"], name="message_by_time"),
            models.Index(fields=["id"], condition=Q(mail_due=True), name="message_mail_due"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.event}"


class JobWatch(BaseModel):
    """A user's request for messages when a job starts and when it ends; it ends with the job.

    `start_notified`: the message about the start was created, or the job already ran.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="job_watches")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="watches")
    start_notified = models.BooleanField(default=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "job"], name="job_watch_once_per_user"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.job_id}"
