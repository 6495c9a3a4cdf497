"""Writing the audit record, inside the transaction of the change it describes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from foundation.actor import Actor, origin
from foundation.models import AuditRecord

DONE: Final = "done"
DENIED: Final = "denied"
_DENIAL: Final = "access.denied"


def record(
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
    return _append(acting_user, action, DONE, entity, str(entity_id), tenant_id, before or {}, after or {})


def denied(
    acting_user: Actor,
    *,
    entity: str,
    entity_id: uuid.UUID | str,
    tenant_id: uuid.UUID | None,
    attempt: Mapping[str, Any],
) -> AuditRecord:
    """Append that something was refused; outside the transaction of what was tried, which is undone."""
    return _append(acting_user, _DENIAL, DENIED, entity, str(entity_id), tenant_id, {}, attempt)


def _append(
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
    return AuditRecord.unscoped.create(
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
