"""Raising the quota of tenants one above the other, so that the lowest has enough to distribute."""

from __future__ import annotations

from collections.abc import Sequence

from foundation.core.actor import Actor
from quotas.models import QuotaRevision
from quotas.selectors.tables.quota_sources import QuotaLack
from quotas.services.quota import quota_change
from quotas.services.quota_plan import NodeAmounts, QuotaAmount


def quota_raise(*, acting_user: Actor, lacks: Sequence[QuotaLack], reason: str) -> QuotaRevision | None:
    """Apply the raises that cover the missing quota of some pools of one cell, all or none.

    Raises: as `quota_change`.
    """
    changes = [
        NodeAmounts(
            one.node,
            [QuotaAmount(lack.flavor, resource, nominal) for resource, nominal in one.nominals.items()],
        )
        for lack in lacks
        for one in lack.raises
    ]
    if not changes:
        return None
    cell_id = lacks[0].node.cell_id
    return quota_change(acting_user=acting_user, cell_id=cell_id, changes=changes, reason=reason)
