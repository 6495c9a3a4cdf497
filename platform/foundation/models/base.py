"""The base of every row, and the foundation's own rows: audit, answers, hints, heartbeats.

There are no queries without a scope: `Model.objects` refuses, selectors return scoped querysets, and the few
places that must read all rows use `Model.unscoped` explicitly.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

from django.db import models

from foundation.core.identifiers import new_id


class UnscopedQuery(RuntimeError):
    """A query for rows did not state on whose behalf it runs."""


class RefusingManager(models.Manager[Any]):
    """The manager `objects` of every model: it refuses, and names the alternatives."""

    def get_queryset(self) -> NoReturn:
        raise UnscopedQuery(
            f"{self.model.__name__}.objects has no scope: use a selector, or {self.model.__name__}.unscoped"
        )


class BaseModel(models.Model):
    """A row with a UUIDv7 key, which therefore contains its creation time."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()
    objects = RefusingManager()

    class Meta:
        abstract = True
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"


class Leased(models.Model):
    """A row that one process at a time may work on; see `foundation.messaging.leases`."""

    lease_holder = models.CharField(max_length=100, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    epoch = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


class Versioned(models.Model):
    """A row that users change through the API: its version is its ETag; see `foundation.sql.versions`."""

    version = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True
