"""The recent usage of users, on which the order of a queue depends."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from foundation.models import BaseModel
from quotas.models import Queue


class UserUsage(BaseModel):
    """The usage of a user's jobs in one queue, decayed to the time `at`.

    `consumed` maps resources to amounts in their units, fractions included: a decayed average, not a sum.
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="user_usage")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="queue_usage")
    at = models.DateTimeField()
    consumed = models.JSONField(default=dict, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "user"], name="user_usage_once_per_queue")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.queue}"
