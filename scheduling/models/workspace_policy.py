"""The policy of a tenant for jobs that are submitted in it and in its descendants."""

from __future__ import annotations

from typing import Final

from django.db import models

from foundation.models import BaseModel, Versioned
from scheduling.models.idle_stretch import IdleAction
from tenants.models import Tenant

IDLE_WARN_S: Final = 600
"""The default time between the warning and the action, in seconds."""


class WorkspacePolicy(BaseModel, Versioned):
    """The policy of one tenant; `scheduling.policy` combines those on a path to the effective policy.

    `minimum` and `maximum` map names of `scheduling.policy.fields` to limits as a job file writes them.
    `images` lists patterns, None allows every image; `allowed` lists patterns by names of
    `scheduling.policy.allowed`; a missing name allows every value. `idle_action` is taken on a job that is
    idle for `idle_timeout_s`, and its owner is warned `idle_warn_s` before.
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
    # How long the pods of a job may take to start; 0 is no limit, null inherits that of ancestors.
    start_limit_s = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"policy of {self.tenant}"
