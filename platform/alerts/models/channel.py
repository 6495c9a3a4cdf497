"""Channels to which notifications are sent."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from foundation.models import BaseModel, Versioned
from tenants.models import Tenant


class ChannelKind(models.TextChoices):
    WEBHOOK = "webhook", _("Webhook")
    EMAIL = "email", _("Email (SMTP)")
    MESSAGE = "message", _("In-site message")
    WECOM = "wecom", _("WeCom")
    DINGTALK = "dingtalk", _("DingTalk")
    LARK = "lark", _("Lark")


class NotificationChannel(Versioned, BaseModel):
    """A receiver of notifications, of one tenant or (without a tenant) of the platform.

    `address` is the URL of a webhook or robot, or the recipients of an email or of an in-site message
    separated by commas. It is stored sealed, as is the signing secret: robots' URLs contain a key.
    `title_template` and `body_template` are the texts of its notifications (`alerts.delivery.templates`).
    `sends_job_watches`: the channel also gets the start and end of watched jobs of its workspace.
    `sending_until` is set while one process sends; `retry_at` is set after a failure, and `failures` counts
    the failures in a row since `failing_since`.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="notification_channels"
    )
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=10, choices=ChannelKind.choices)
    sealed_address = models.TextField()
    sealed_secret = models.TextField(blank=True, default="")
    language = models.CharField(max_length=10, default="en")
    title_template = models.CharField(max_length=200, blank=True, default="", db_default="")
    body_template = models.CharField(max_length=2000, blank=True, default="", db_default="")
    sends_job_watches = models.BooleanField(default=False, db_default=False)
    enabled = models.BooleanField(default=True)
    sending_until = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    failing_since = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True, default="")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="channel_name_once_per_tenant"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(tenant__isnull=True), name="channel_name_once_on_platform"
            ),
        ]

    def __str__(self) -> str:
        return self.name
