"""Base of every row, and the rows the foundation itself keeps: audit, answers, hints, heartbeats.

A query without a scope does not exist here: `Model.objects` refuses, selectors hand out scoped
querysets, and the few places that must see everything say so by writing `Model.unscoped`.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, NoReturn, Self

from django.db import models
from django.db.models import Q
from rest_framework.utils.encoders import JSONEncoder

from foundation.identifiers import new_id


class UnscopedQuery(RuntimeError):
    """Somebody asked for rows without saying on whose behalf."""


class RefusingManager(models.Manager[Any]):
    """`objects` of every model: refuses, and names the way out."""

    def get_queryset(self) -> NoReturn:
        raise UnscopedQuery(
            f"{self.model.__name__}.objects has no scope: use a selector, or {self.model.__name__}.unscoped"
        )


class BaseModel(models.Model):
    """A row with a UUIDv7 key, whose creation time it therefore carries."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()
    objects = RefusingManager()

    class Meta:
        abstract = True
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"


class Leased(models.Model):
    """A row that one process at a time may work on; see `foundation.leases`."""

    lease_holder = models.CharField(max_length=100, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    epoch = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


class Versioned(models.Model):
    """A row that people change through the API: its version is its ETag; see `foundation.versions`."""

    version = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True


class AuditRecord(BaseModel):
    """Who did what to what, and when; append-only, written in the transaction of the change.

    On PostgreSQL triggers refuse to change or remove a row, whoever asks.
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
    """A link of the chain over the audit records; append-only as they are. See `foundation.audit_chain`.

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
        # Also a worker of the version before, which knows no key, is refused; the next one seals instead.
        constraints: ClassVar = [models.CheckConstraint(condition=~Q(key_id=""), name="audit_seal_is_keyed")]

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"


class IdempotencyKey(BaseModel):
    """What was answered to one `Idempotency-Key`; see `foundation.idempotency`.

    `scope` is the id of the caller, `route` the hash of method and path.
    """

    scope = models.UUIDField()
    route = models.CharField(max_length=120)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True, encoder=JSONEncoder)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scope", "route", "key"], name="idempotent_request_once")
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="idempotent_request_age")]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"


class Hint(models.Model):
    """A wish that a task runs soon; one per topic and key, so a thousand changes make one message."""

    id = models.BigAutoField(primary_key=True)
    topic = models.CharField(max_length=40)
    key = models.CharField(max_length=64)
    not_before = models.DateTimeField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [models.UniqueConstraint(fields=["topic", "key"], name="hint_once")]
        indexes: ClassVar = [models.Index(fields=["not_before"])]

    def __str__(self) -> str:
        return f"{self.topic}:{self.key}"


class Installation(models.Model):
    """Which installation of the platform this database belongs to; the only row has the key 1.

    The id never changes. A copy of the database has the same one.
    """

    number = models.PositiveSmallIntegerField(primary_key=True, default=1)
    uuid = models.UUIDField(default=uuid.uuid4, unique=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [models.CheckConstraint(condition=Q(number=1), name="installation_is_one")]

    def __str__(self) -> str:
        return str(self.uuid)


class Measure(models.Model):
    """What all processes together have counted: one row per name, values of labels and bucket."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=80)
    labels = models.CharField(max_length=400)
    le = models.CharField(max_length=12, blank=True)
    count = models.BigIntegerField()
    total = models.FloatField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "labels", "le"], name="measure_once")
        ]

    def __str__(self) -> str:
        return f"{self.name}{self.labels}{self.le}"


class Heartbeat(models.Model):
    """When a part of the platform last finished a piece of work; readiness looks here, not at PIDs."""

    name = models.CharField(max_length=60, primary_key=True)
    at = models.DateTimeField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
