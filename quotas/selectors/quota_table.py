"""The quota table of a tenant: what it has, what its children have, and what becomes of it now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.division import totals
from quotas.hooks.job_effects import answers
from quotas.models import Queue, QuotaNode
from quotas.selectors.node_names import node_names
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tree import tree_rows
from quotas.tree.limits import NOTHING, Amount, Limits, plus
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

Key = tuple[uuid.UUID, Resource]


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One flavor and resource of one node, in the resource's unit; None is unlimited.

    `nominal` = `kept` + `given`: what the node has, what it keeps for itself, what its children have.
    `allocated` is in use at and below it, `borrowed` the part of it above what the node has, `lent` what
    others hold now of what the node has and leaves unused.
    """

    flavor: Flavor
    resource: Resource
    nominal: Amount
    kept: Amount
    given: Amount
    borrowing_limit: Amount
    lending_limit: Amount
    allocated: int
    borrowed: int
    lent: int


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """One node with its lines, flavors by name. `pending` is what waits in the queues below it.

    `pending_flavors` is by flavor the cards of the waiting jobs that may run there; one job may count in
    several flavors, so these are never added up.
    """

    node: QuotaNode
    name: str
    queue: str
    lines: Sequence[QuotaLine]
    pending_jobs: int
    pending_cards: int
    pending_flavors: Mapping[uuid.UUID, int]

    @property
    def etag(self) -> str:
        """The strong entity tag of the node's quota."""
        return f'"{self.node.version}"'


class QuotaTable:
    """Everything about a cell's quotas that tables show, from a fixed number of queries."""

    @row_scope.whole()
    def __init__(self, cell_id: uuid.UUID) -> None:
        rows = tree_rows(cell_id)
        closed = Queue.unscoped.filter(cell=cell_id, closed_at__isnull=False).values_list(
            "node_id", flat=True
        )
        self.closed = set(closed)
        """Of queues that were deleted: they have no quota and are not shown, but what they used counts."""
        self.nodes = {node.pk: node for node in rows.nodes}
        self.parents = {node.pk: node.parent_id for node in rows.nodes}
        self.names = node_names(set(self.nodes))
        self._children: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
        for pk in sorted(self.nodes, key=lambda pk: (self.names[pk], str(pk))):
            above = self.parents[pk]
            if above is not None and pk not in self.closed:
                self._children[above].append(pk)
        flavors = Flavor.unscoped.filter(cluster__cell_id=cell_id).select_related("cluster")
        self.flavors = {flavor.pk: flavor for flavor in flavors.order_by("name", "pk")}
        self._limits: defaultdict[Key, dict[uuid.UUID, Limits]] = defaultdict(dict)
        for quotas in rows.quotas.values():
            for q in quotas:
                limits = Limits(q.nominal, q.borrowing_limit, q.lending_limit)
                self._limits[q.flavor_id, Resource(q.resource)][q.node_id] = limits
        self._used: defaultdict[Key, Counter[uuid.UUID]] = defaultdict(Counter)
        for node_id, entries in rows.used.items():
            for entry in entries:
                self._used[entry.flavor_id, Resource(entry.resource)][node_id] += entry.used
        self._demand = answers().pending([pk for pk, node in self.nodes.items() if node.is_queue])

    def children(self, node_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Right below a node, by name."""
        return self._children[node_id]

    def quotas_of(self, wanted: Sequence[uuid.UUID]) -> list[NodeQuota]:
        """The nodes with their lines, in the order asked for."""
        lines: dict[uuid.UUID, list[QuotaLine]] = {pk: [] for pk in wanted}
        for flavor in self.flavors.values():
            for resource in Resource:
                self._add_lines(lines, flavor, resource)
        rows = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").in_bulk(wanted)
        return [self._node_quota(rows[pk], lines[pk]) for pk in wanted if pk in rows]

    def _node_quota(self, node: QuotaNode, lines: Sequence[QuotaLine]) -> NodeQuota:
        below = [self._demand[leaf] for leaf in self._below(node.pk) if leaf in self._demand]
        return NodeQuota(
            node=node,
            name=self.names[node.pk],
            queue=node.queue.name if node.is_queue else "",
            lines=lines,
            pending_jobs=sum(demand.jobs for demand in below),
            pending_cards=sum(demand.cards for demand in below),
            pending_flavors=sum((Counter(demand.flavor_cards) for demand in below), Counter()),
        )

    def _add_lines(
        self, lines: Mapping[uuid.UUID, list[QuotaLine]], flavor: Flavor, resource: Resource
    ) -> None:
        limits, used = self._limits[flavor.pk, resource], self._used[flavor.pk, resource]
        if not limits and not used:
            return
        has = totals(self.parents, {pk: one.nominal for pk, one in limits.items()})
        allocated = self._allocated(used)
        borrowed = {pk: _above(has[pk], allocated[pk]) for pk in has}
        lent = self._lent(has, limits, allocated, borrowed)
        for pk, found in lines.items():
            if pk not in limits and has[pk] == 0 and not allocated[pk]:
                continue
            own = limits.get(pk, NOTHING)
            found.append(
                QuotaLine(
                    flavor=flavor,
                    resource=resource,
                    nominal=has[pk],
                    kept=own.nominal,
                    given=_sum(has[child] for child in self.children(pk)),
                    borrowing_limit=own.borrowing_limit,
                    lending_limit=own.lending_limit,
                    allocated=allocated[pk],
                    borrowed=borrowed[pk],
                    lent=lent[pk],
                )
            )

    def _allocated(self, used: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
        """What is in use at and below each node."""
        found = dict.fromkeys(self.nodes, 0)
        for leaf, amount in used.items():
            above: uuid.UUID | None = leaf
            while above is not None:
                found[above] += amount
                above = self.parents[above]
        return found

    def _lent(
        self,
        has: Mapping[uuid.UUID, Amount],
        limits: Mapping[uuid.UUID, Limits],
        allocated: Mapping[uuid.UUID, int],
        borrowed: Mapping[uuid.UUID, int],
    ) -> dict[uuid.UUID, int]:
        """What others hold of each node, from the root down.

        Whoever borrows takes first what a node above keeps for all below it, then what its children leave
        unused, in proportion; rounded so that the sums agree.
        """
        ordered = [pk for pk, parent in self.parents.items() if parent is None]
        for pk in ordered:
            ordered.extend(self._children[pk])
        spare = self._spare(ordered, has, limits, allocated)
        found = dict.fromkeys(self.nodes, 0)
        for pk in ordered:
            children, kept = self._children[pk], limits.get(pk, NOTHING).nominal
            inside = sum(borrowed[child] for child in children) - borrowed[pk]
            left = sum(spare[child] for child in children)
            rest = 0 if kept is None else min(left, max(0, inside + found[pk] - kept))
            for child in children:
                found[child] = rest * spare[child] // left if left else 0
                left -= spare[child]
                rest -= found[child]
        return found

    def _spare(
        self,
        ordered: Sequence[uuid.UUID],
        has: Mapping[uuid.UUID, Amount],
        limits: Mapping[uuid.UUID, Limits],
        allocated: Mapping[uuid.UUID, int],
    ) -> dict[uuid.UUID, int]:
        """What each node leaves unused and may lend; `ordered` are the nodes, parents first."""
        found: dict[uuid.UUID, int] = {}
        for pk in reversed(ordered):
            own, total = limits.get(pk, NOTHING), has[pk]
            below = (own.nominal or 0) + sum(found[child] for child in self._children[pk])
            free = 0 if total is None else min(below, max(0, total - allocated[pk]))
            found[pk] = free if own.lending_limit is None else min(free, own.lending_limit)
        return found

    def _below(self, node_id: uuid.UUID) -> list[uuid.UUID]:
        found = [node_id]
        for pk in found:
            found.extend(self._children[pk])
        return found


def _above(has: Amount, used: int) -> int:
    return 0 if has is None else max(0, used - has)


def _sum(amounts: Iterable[Amount]) -> Amount:
    total: Amount = 0
    for amount in amounts:
        total = plus(total, amount)
    return total


def quota_nodes(viewer: Actor, tenant: Tenant | None = None) -> list[QuotaNode]:
    """Nodes of tenants whose quota the viewer may see, parents first; of one tenant only when given.

    Raises: NotFound, PermissionDenied.
    """
    nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue")
    nodes = nodes.exclude(queue__closed_at__isnull=False)
    if tenant is not None:
        permissions.require(viewer, Permission.QUOTA_VIEW, tenant)
        return list(nodes.filter(tenant=tenant).order_by("cell__name", "is_queue", "pk"))
    seen = nodes.filter(tenant__in=quota_tenants(viewer))
    return list(seen.order_by("cell__name", "tenant__path", "is_queue", "pk"))


def quota_node_get(viewer: Actor, pk: uuid.UUID) -> QuotaNode:
    """One node by id.

    Raises: NotFound, also for one of a tenant that the viewer cannot see; PermissionDenied.
    """
    node = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").filter(pk=pk).first()
    if node is None:
        raise NotFound(_("There is no such quota."))
    permissions.require(viewer, Permission.QUOTA_VIEW, node.tenant)
    return node


def tenant_get(viewer: Actor, slug: str) -> Tenant:
    """A folder or workspace by slug.

    Raises: NotFound, PermissionDenied.
    """
    tenant = Tenant.unscoped.filter(slug=slug).select_related("parent").first()
    if tenant is None:
        raise NotFound(_("There is no tenant named %(name)s in your sight.") % {"name": slug})
    permissions.require(viewer, Permission.QUOTA_VIEW, tenant)
    return tenant


def node_quota(viewer: Actor, node: QuotaNode) -> NodeQuota:
    """One node with its lines.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require(viewer, Permission.QUOTA_VIEW, node.tenant)
    return QuotaTable(node.cell_id).quotas_of([node.pk])[0]


def tenant_quota_table(viewer: Actor, tenant: Tenant, cell: Cell) -> list[NodeQuota]:
    """The tenant's node first, then its children by name; empty where the cell does not know the tenant.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require(viewer, Permission.QUOTA_VIEW, tenant)
    table = QuotaTable(cell.pk)
    own = [pk for pk, node in table.nodes.items() if node.tenant_id == tenant.pk and not node.is_queue]
    return table.quotas_of([*own, *(child for pk in own for child in table.children(pk))])
