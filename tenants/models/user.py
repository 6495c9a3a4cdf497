"""Accounts."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from foundation.core import clock
from foundation.core.identifiers import new_id
from foundation.models import Versioned


class AccountKind(models.TextChoices):
    PERSON = "person", "Person"
    SERVICE = "service", "Service account"


class User(Versioned, AbstractUser):
    """A person or a service account. What it may do comes from its memberships alone.

    A one-time password (`must_change_password`) is good until `password_expires_at`, for nothing but to
    choose another one. A service account belongs to a tenant (`home`), has no password, and acts by access
    keys only.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=AccountKind.choices, default=AccountKind.PERSON)
    home = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, null=True, blank=True, related_name="service_accounts"
    )
    must_change_password = models.BooleanField(default=False)
    password_expires_at = models.DateTimeField(null=True, blank=True)

    REQUIRED_FIELDS: ClassVar[list[str]] = []  # nothing here is sent by e-mail

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(kind=AccountKind.PERSON, home__isnull=True)
                | Q(kind=AccountKind.SERVICE, home__isnull=False),
                name="user_service_account_has_home",
            )
        ]

    def __str__(self) -> str:
        return self.username

    @property
    def password_expired(self) -> bool:
        """Whether the one-time password was not changed in time."""
        end = self.password_expires_at
        return self.must_change_password and end is not None and end <= clock.now()

    @property
    def is_service(self) -> bool:
        return self.kind == AccountKind.SERVICE
