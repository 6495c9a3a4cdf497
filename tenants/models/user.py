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
    """A user or a service account. Its permissions come from its memberships alone.

    A one-time password (`must_change_password`) is valid until `password_expires_at`, only for choosing
    another one; an account without a password is an invitation until then. Sessions carry the number
    `sessions_ended`, so that a higher number ends them all. A service account belongs to a tenant (`home`),
    has no password, and uses access keys only. `language` is that of the pages at the last sign-in, or chosen
    since.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=AccountKind.choices, default=AccountKind.PERSON)
    home = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, null=True, blank=True, related_name="service_accounts"
    )
    must_change_password = models.BooleanField(default=False)
    password_expires_at = models.DateTimeField(null=True, blank=True)
    sessions_ended = models.PositiveIntegerField(default=0, db_default=0)
    language = models.CharField(max_length=10, blank=True, default="", db_default="")

    REQUIRED_FIELDS: ClassVar[list[str]] = []  # createsuperuser must not ask for an email address

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
        """Return whether the one-time password was not changed in time."""
        end = self.password_expires_at
        return self.must_change_password and end is not None and end <= clock.now()

    @property
    def is_invited(self) -> bool:
        """Return whether the account waits for its user to choose a first password."""
        return self.must_change_password and not self.has_usable_password()

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        found: str = super()._get_session_auth_hash(secret=secret)  # type: ignore[misc]
        # Zero adds nothing, so that sessions of earlier releases stay open after an upgrade.
        return f"{found}{self.sessions_ended}" if self.sessions_ended else found

    @property
    def is_service(self) -> bool:
        return self.kind == AccountKind.SERVICE
