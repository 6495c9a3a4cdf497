"""Base of every row, and the rows the foundation itself keeps: audit, answers, hints, heartbeats.

A query without a scope does not exist here: `Model.objects` refuses, selectors hand out scoped
querysets, and the few places that must see everything say so by writing `Model.unscoped`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

from django.db import models

from foundation.core.identifiers import new_id


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
    """A row that one process at a time may work on; see `foundation.messaging.leases`."""

    lease_holder = models.CharField(max_length=100, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    epoch = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


class Versioned(models.Model):
    """A row that people change through the API: its version is its ETag; see `foundation.sql.versions`."""

    version = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True
