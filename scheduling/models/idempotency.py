"""Answers kept for requests that may be sent twice."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from foundation.models import BaseModel
from tenants.models import Tenant


class IdempotencyKey(BaseModel):
    """What was answered to one `Idempotency-Key`.

    Written in the transaction of the change itself: either both exist or neither does. `fingerprint`
    is the SHA-256 of the body, so that the same key with another body is noticed.
    """

    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=80)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    answer = models.JSONField(default=dict)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "route", "key"], name="idempotency_key_once")
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="idempotency_age")]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"
