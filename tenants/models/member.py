"""Who belongs where, in which role."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from foundation.models import BaseModel
from tenants.models.tenant import Tenant


class Role(models.TextChoices):
    """Tenant roles are inherited downwards; platform roles stand on no tenant."""

    ADMIN = "admin", "Admin"
    EDITOR = "editor", "Editor"
    VIEWER = "viewer", "Viewer"
    PLATFORM_ADMIN = "platform-admin", "Platform admin"
    PLATFORM_VIEWER = "platform-viewer", "Platform viewer"
    AUDITOR = "auditor", "Auditor"


PLATFORM_ROLES = (Role.PLATFORM_ADMIN, Role.PLATFORM_VIEWER, Role.AUDITOR)


class Member(BaseModel):
    """A user in a role on a tenant, or on the platform when `tenant` is empty."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="members"
    )
    role = models.CharField(max_length=20, choices=Role.choices)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "tenant"], name="member_once_per_tenant"),
            models.UniqueConstraint(
                fields=["user"], condition=Q(tenant__isnull=True), name="member_one_platform_role"
            ),
            models.CheckConstraint(
                condition=Q(tenant__isnull=True, role__in=PLATFORM_ROLES)
                | (Q(tenant__isnull=False) & ~Q(role__in=PLATFORM_ROLES)),
                name="member_role_matches_scope",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} {self.tenant or 'platform'}"
