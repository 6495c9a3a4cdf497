"""The policy of a tenant for the jobs that are submitted at it and below it."""

from __future__ import annotations

from typing import Final

from django.db import models

from foundation.models import BaseModel, Versioned
from scheduling.models.idle_stretch import IdleAction
from tenants.models import Tenant

IDLE_WARN_S: Final = 600
"""Counts where a tenant names no other time."""


class WorkspacePolicy(BaseModel, Versioned):
    """The policy of one tenant; what counts in a workspace is combined by `scheduling.policy`.

    `minimum` and `maximum` map names of `scheduling.policy.fields` to limits as a job file writes them.
    `images` lists patterns, None allows every image; `allowed` lists them by names of
    `scheduling.policy.allowed`, where a name that is left out allows every value. A job that is idle for
    `idle_timeout_s` is treated by `idle_action`, and its owner is warned `idle_warn_s` before.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="workspace_policy")
    defaults = models.JSONField(default=dict, blank=True)
    minimum = models.JSONField(default=dict, blank=True)
    maximum = models.JSONField(default=dict, blank=True)
    images = models.JSONField(null=True, blank=True)
    allowed = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)
    idle_timeout_s = models.PositiveIntegerField(null=True, blank=True)
    idle_action = models.CharField(
        max_length=12,
        choices=IdleAction.choices,
        default=IdleAction.SUSPEND,
        db_default=IdleAction.SUSPEND.value,
    )
    idle_warn_s = models.PositiveIntegerField(default=IDLE_WARN_S, db_default=IDLE_WARN_S)
    # How long the pods of a job may take to start; 0 is no limit, null leaves it to the tenants above.
    start_limit_s = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"policy of {self.tenant}"
