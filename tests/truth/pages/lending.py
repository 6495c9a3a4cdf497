"""The amounts that quota nodes borrow and could lend, from the stored rows of one resource of one pool."""

from __future__ import annotations

import uuid
from collections import Counter

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaNode
from scheduling.models import Allocation


class Lending:
    """Computes amounts of nodes in the resource's unit, by walking down from the node each time."""

    def __init__(self, pool: Flavor, resource: Resource = Resource.GPU_CORES) -> None:
        rows = Quota.unscoped.filter(flavor=pool, resource=resource.value)
        self._own = {row.node_id: row.own_nominal for row in rows}
        self._limits = {row.node_id: row.lending_limit for row in rows}
        self._parents = dict(QuotaNode.unscoped.values_list("pk", "parent_id"))
        self._held = Counter[uuid.UUID]()
        held = Allocation.unscoped.filter(flavor=pool, released_at__isnull=True)
        for node, charge in held.values_list("attempt__job__queue__node_id", "charge"):
            self._held[node] += charge.get(resource.value, 0)

    def _lacking(self, node: uuid.UUID) -> int | None:
        """Return what is held above the own nominal and what the children have for others, below 0 if less.

        None if the own nominal is unlimited: nothing more is needed then.
        """
        own = self._own.get(node, 0)
        if own is None:
            return None
        found = self._held[node] - own
        for child, parent in self._parents.items():
            if parent == node and (lack := self._lacking(child)) is not None:
                limit = self._limits.get(child)
                found += lack if limit is None else max(lack, -limit)
        return found

    def borrowed(self, node: uuid.UUID) -> int:
        """Return what is held of the quota of others."""
        return max(0, self._lacking(node) or 0)

    def lendable(self, node: uuid.UUID) -> int:
        """Return what others may hold of the nominal."""
        lack, limit = self._lacking(node) or 0, self._limits.get(node)
        return max(0, -lack if limit is None else min(-lack, limit))
