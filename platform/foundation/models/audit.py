"""Audit records and the seals that chain them."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q

from foundation.models.base import BaseModel


class AuditRecord(BaseModel):
    """One action: actor, object and time; append-only, written in the transaction of the change.

    On PostgreSQL triggers refuse to change or delete a row, for every database role.
    """

    actor_id = models.UUIDField(null=True, db_index=True)
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=80, db_index=True)
    entity = models.CharField(max_length=60)
    entity_id = models.CharField(max_length=64, db_index=True)
    tenant_id = models.UUIDField(null=True, db_index=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    result = models.CharField(max_length=20, default="done")
    address = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=64, blank=True, default="")

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="audit_by_time"),
            models.Index(fields=["tenant_id", "-created_at", "-id"], name="audit_of_tenant_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.action} {self.entity} {self.entity_id}"


class AuditSeal(models.Model):
    """A link of the chain over the audit records; append-only as they are. See `foundation.audit.chain`.

    `key_id` names the secret that the hash is keyed with.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    record_id = models.UUIDField(unique=True)
    hash = models.CharField(max_length=64)
    key_id = models.CharField(max_length=8, db_default="")

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        # A worker of the previous version, which sets no key, is refused as well; the next worker seals
        # instead.
        constraints: ClassVar = [models.CheckConstraint(condition=~Q(key_id=""), name="audit_seal_is_keyed")]

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"
