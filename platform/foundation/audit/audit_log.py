"""Writes audit records in the transaction of the change that they describe."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from foundation.core.actor import Actor, origin
from foundation.models import AuditRecord
from foundation.sql import row_scope

_outliving: ContextVar[list[AuditRecord] | None] = ContextVar("outliving", default=None)
DONE: Final = "done"
DENIED: Final = "denied"
DENIAL: Final = "access.denied"
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The change of one of several objects that one action changes."""

    entity_id: uuid.UUID
    tenant_id: uuid.UUID | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


def record_action(
    acting_user: Actor,
    action: str,
    *,
    entity: str,
    entity_id: uuid.UUID | str,
    tenant_id: uuid.UUID | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditRecord:
    """Append one audit record. `action` is `<entity>.<verb>`, for instance `job.submit`."""
    row = _row(acting_user, action, DONE, entity, str(entity_id), tenant_id, before or {}, after or {})
    row.save(force_insert=True)
    return row


RecordKeys = tuple[datetime, uuid.UUID, uuid.UUID | None, uuid.UUID | None]


def list_recorded(after: datetime | None, limit: int) -> QuerySet[AuditRecord, RecordKeys]:
    """Return moment, key, tenant and actor of the newest records, or only of those after a moment."""
    records = (
        AuditRecord.unscoped.all() if after is None else AuditRecord.unscoped.filter(created_at__gt=after)
    )
    return records.order_by("-created_at", "-id").values_list("created_at", "pk", "tenant_id", "actor_id")[
        :limit
    ]


def record_many(acting_user: Actor, action: str, *, entity: str, changes: Sequence[FieldChange]) -> None:
    """Append a record for each change, in one statement."""
    rows = [
        _row(acting_user, action, DONE, entity, str(c.entity_id), c.tenant_id, c.before, c.after)
        for c in changes
    ]
    AuditRecord.unscoped.bulk_create(rows, batch_size=_BATCH)


def record_denial(
    acting_user: Actor,
    *,
    entity: str,
    entity_id: uuid.UUID | str,
    tenant_id: uuid.UUID | None,
    attempt: Mapping[str, Any],
) -> AuditRecord:
    """Append the record of a refusal; outside the transaction of the attempt, which is rolled back."""
    row = _row(acting_user, DENIAL, DENIED, entity, str(entity_id), tenant_id, {}, attempt)
    row.save(force_insert=True)
    return row


def record_failure(
    acting_user: Actor,
    action: str,
    *,
    entity: str,
    entity_id: uuid.UUID | str,
    tenant_id: uuid.UUID | None = None,
    after: Mapping[str, Any],
) -> None:
    """Append that an action failed, before it is refused, outside the transaction of the attempt.

    If a surrounding transaction is rolled back by the refusal (`outlive_rollback`), it is written after that.
    """
    row = _row(acting_user, action, DONE, entity, str(entity_id), tenant_id, {}, after)
    waiting = _outliving.get()
    if waiting is None:
        row.save(force_insert=True)
    else:
        waiting.append(row)


@contextmanager
def outlive_rollback() -> Iterator[None]:
    """Write the records that `record_failure` appends within the block at its end, even if it raises."""
    waiting: list[AuditRecord] = []
    token = _outliving.set(waiting)
    try:
        yield
    finally:
        _outliving.reset(token)
        with row_scope.whole():
            for row in waiting:
                row.save(force_insert=True)


def _row(
    acting_user: Actor,
    action: str,
    result: str,
    entity: str,
    entity_id: str,
    tenant_id: uuid.UUID | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> AuditRecord:
    where = origin.get()
    return AuditRecord(
        actor_id=acting_user.pk,
        actor_name=acting_user.get_username(),
        action=action,
        entity=entity,
        entity_id=entity_id,
        tenant_id=tenant_id,
        before=dict(before),
        after=dict(after),
        result=result,
        address=where.address,
        request_id=where.request_id,
    )
