"""Memberships: users, tenants and roles."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from foundation.models import BaseModel, Versioned
from tenants.models.group import Group
from tenants.models.role import PLATFORM_ROLES, CustomRole, Role
from tenants.models.tenant import Tenant


class Member(BaseModel, Versioned):
    """A user or a group in a role on a tenant, or on the platform when `tenant` is empty.

    The role is one of the built-in ones, or `custom_role` with an empty `role`.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    group = models.ForeignKey(
        Group, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="members"
    )
    role = models.CharField(max_length=20, choices=Role.choices, blank=True, default="")
    custom_role = models.ForeignKey(
        CustomRole, on_delete=models.PROTECT, null=True, blank=True, related_name="members"
    )

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "tenant"], name="member_once_per_tenant"),
            models.UniqueConstraint(
                fields=["user"], condition=Q(tenant__isnull=True), name="member_one_platform_role"
            ),
            models.UniqueConstraint(fields=["group", "tenant"], name="member_group_once_per_tenant"),
            models.UniqueConstraint(
                fields=["group"], condition=Q(tenant__isnull=True), name="member_group_one_platform_role"
            ),
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True)
                | Q(user__isnull=True, group__isnull=False),
                name="member_is_user_or_group",
            ),
            models.CheckConstraint(
                condition=(Q(role="") & Q(custom_role__isnull=False))
                | (~Q(role="") & Q(custom_role__isnull=True)),
                name="member_has_one_role",
            ),
            models.CheckConstraint(
                condition=Q(role="")
                | Q(tenant__isnull=True, role__in=PLATFORM_ROLES)
                | (Q(tenant__isnull=False) & ~Q(role__in=PLATFORM_ROLES)),
                name="member_role_matches_scope",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject_name} {self.role_name} {self.tenant or 'platform'}"

    @property
    def subject_name(self) -> str:
        """The name of the user or group."""
        return str(self.user or self.group)

    @property
    def role_name(self) -> str:
        """The word of the built-in role, or the name of the custom one."""
        return self.role or str(self.custom_role)

    @property
    def subject_kind(self) -> str:
        """The word `user`, `group` or `service-account`."""
        if self.user is None:
            return "group"
        return "service-account" if self.user.is_service else "user"
