"""Bearer tokens. Only a hash is kept; the token itself is shown once."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from foundation.models import BaseModel


class AccessKey(BaseModel):
    """A key of one user: found by its prefix, checked by its hash, never stored in clear text.

    A rotated key names its successor in `replaced_by`, and expires soon after the rotation.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_keys")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    replaced_by = models.OneToOneField(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="replaces"
    )

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
