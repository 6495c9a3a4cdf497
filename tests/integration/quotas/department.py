"""A folder that keeps 10 cards, with team A (8, in its queue) and team B (4, in its queue)."""

from __future__ import annotations

from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaKey, QuotaNode
from quotas.services.quota_plan import QuotaTables
from tenants.models import Role, User
from tests.builders import clusters, quotas, tenancy

CARDS = Resource.GPU_CARDS


class Department:
    """Anna is the folder's admin, Ed an editor and Adam the admin of team A."""

    def __init__(self) -> None:
        self.cell = clusters.cell()
        self.flavor = clusters.flavor(clusters.cluster(self.cell))
        self.folder = tenancy.folder("research")
        self.a, self.b = (tenancy.workspace(name, self.folder) for name in ("team-a", "team-b"))
        self.node = quotas.quota_node(self.cell, self.folder)
        quotas.quota(self.node, self.flavor, CARDS, 10)
        self.queue_a = quotas.queue(self.cell, self.a, [self.flavor])
        self.queue_b = quotas.queue(self.cell, self.b, [self.flavor])
        quotas.quota(self.queue_a.node, self.flavor, CARDS, 8, borrowing_limit=2)
        quotas.quota(self.queue_b.node, self.flavor, CARDS, 4)
        self.node_a, self.node_b = (quotas.quota_node(self.cell, team) for team in (self.a, self.b))
        self.anna: User = tenancy.user("anna", self.folder, Role.ADMIN)
        self.adam: User = tenancy.user("adam", self.a, Role.ADMIN)
        self.ed: User = tenancy.user("ed", self.a, Role.EDITOR)

    def own_nominal(self, node: QuotaNode) -> int | None:
        row = Quota.unscoped.filter(node=node, flavor=self.flavor, resource=CARDS).first()
        return 0 if row is None else row.own_nominal

    def has(self, node: QuotaNode) -> int | None:
        return QuotaTables(self.cell.pk).get_nominal(QuotaKey(node.pk, self.flavor.pk, CARDS))

    def sums(self) -> tuple[int | None, ...]:
        """Return what the folder, team A and team B have."""
        return self.has(self.node), self.has(self.node_a), self.has(self.node_b)
