"""Writing the audit record, inside the transaction of the change it describes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from foundation.actor import Actor, origin
from foundation.models import AuditRecord


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
    where = origin.get()
    return AuditRecord.unscoped.create(
        actor_id=acting_user.pk,
        actor_name=acting_user.get_username(),
        action=action,
        entity=entity,
        entity_id=str(entity_id),
        tenant_id=tenant_id,
        before=dict(before or {}),
        after=dict(after or {}),
        address=where.address,
        request_id=where.request_id,
    )
