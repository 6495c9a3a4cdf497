"""Names of quota nodes: its tenant, or its workspace and queue."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from quotas.models import QuotaNode


def node_names(nodes: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Names by id: a tenant's own, and `workspace / queue` for a queue."""
    rows = QuotaNode.unscoped.filter(pk__in=nodes).values_list("pk", "tenant__name", "queue__name")
    return {pk: f"{tenant} / {queue}" if queue else tenant for pk, tenant, queue in rows}
