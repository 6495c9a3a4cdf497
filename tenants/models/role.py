"""Roles: sets of permissions, built-in or custom."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower

from foundation.models import BaseModel, Versioned
from tenants.models.tenant import Tenant


class Role(models.TextChoices):
    """The built-in roles. Tenant roles are inherited downwards; platform roles are not given on a tenant."""

    ADMIN = "admin", "Admin"
    EDITOR = "editor", "Editor"
    VIEWER = "viewer", "Viewer"
    PLATFORM_ADMIN = "platform-admin", "Platform admin"
    PLATFORM_VIEWER = "platform-viewer", "Platform viewer"
    AUDITOR = "auditor", "Auditor"


PLATFORM_ROLES = (Role.PLATFORM_ADMIN, Role.PLATFORM_VIEWER, Role.AUDITOR)


class CustomRole(BaseModel, Versioned):
    """A custom set of permissions.

    It may be given on `tenant` and below it; without a tenant, on the platform.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="custom_roles"
    )
    name = models.CharField(max_length=60)
    description = models.CharField(max_length=200, blank=True, default="")
    points = models.JSONField(default=list)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(F("tenant"), Lower("name"), name="custom_role_once_per_tenant"),
            models.UniqueConstraint(
                Lower("name"), condition=Q(tenant__isnull=True), name="custom_role_once_on_platform"
            ),
        ]

    def __str__(self) -> str:
        return self.name
