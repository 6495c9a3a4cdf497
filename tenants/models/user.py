"""Accounts."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models

from foundation.identifiers import new_id


class User(AbstractUser):
    """A person or a service account. What it may do comes from its memberships alone."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    must_change_password = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.username
