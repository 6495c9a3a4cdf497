"""Limits of what one user's jobs may reserve in a workspace."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from foundation.models import BaseModel, Versioned
from quotas.models.quota import RESOURCE_CHOICES
from tenants.models import Tenant


class UserLimit(Versioned, BaseModel):
    """A cap on what the jobs of a user reserve at once, all queues and flavors of the workspace together.

    A row without a user applies to every user without a limit of their own. `amount` None is unlimited, which
    is only useful for a single user.
    """

    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="user_limits")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="limits"
    )
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    amount = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "user", "resource"], name="user_limit_once"),
            models.UniqueConstraint(
                fields=["workspace", "resource"],
                condition=Q(user__isnull=True),
                name="user_limit_once_for_everybody",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user or '*'} in {self.workspace}: {self.resource} {self.amount}"
