"""Rows that processes share: stored answers, hints, the installation's id, counters and heartbeats."""

from __future__ import annotations

import uuid
from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from rest_framework.utils.encoders import JSONEncoder

from foundation.models.base import BaseModel


class IdempotencyKey(BaseModel):
    """The answer to one `Idempotency-Key`; see `foundation.web.idempotency`.

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
    """A request that a task runs soon; one per topic and key, so a thousand changes make one message."""

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
    """The installation of the platform that this database belongs to; the only row has the key 1.

    The id never changes. A copy of the database has the same id. `name` and `logo` replace those of the
    product; `logo_type` is its media type, and `logo_mark` differs for every logo.
    """

    number = models.PositiveSmallIntegerField(primary_key=True, default=1)
    uuid = models.UUIDField(default=uuid.uuid4, unique=True)
    # When a platform admin dismissed the checklist of the first steps.
    setup_dismissed_at = models.DateTimeField(null=True, blank=True)
    name = models.CharField(max_length=40, blank=True, default="", db_default="")
    logo = models.BinaryField(null=True, blank=True)
    logo_type = models.CharField(max_length=20, blank=True, default="", db_default="")
    logo_mark = models.CharField(max_length=16, blank=True, default="", db_default="")

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [models.CheckConstraint(condition=Q(number=1), name="installation_is_one")]

    def __str__(self) -> str:
        return str(self.uuid)


class Measure(models.Model):
    """The counts of all processes together: one row per name, values of labels and bucket."""

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
    """The time when a part of the platform last finished a piece of work, by which readiness is checked
    instead of by PIDs.
    """

    name = models.CharField(max_length=60, primary_key=True)
    at = models.DateTimeField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
