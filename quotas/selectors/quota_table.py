"""The quota table of a tenant: what it has, what its children have, and what becomes of it now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.actor import Actor
from foundation.errors import NotFound
from foundation.quantities import Resource
from quotas.distribution import totals
from quotas.effect import answers
from quotas.models import QuotaNode
from quotas.selectors.node_names import node_names
from quotas.selectors.tree import tree_rows
from quotas.tree.limits import NOTHING, Amount, Limits, plus
from tenants import permissions
from tenants.models import Tenant
from tenants.permissions import Permission

Key = tuple[uuid.UUID, Resource]


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One flavor and resource of one node, in the resource's unit; None is unlimited.

    `nominal` = `kept` + `given`: what the node has, what it keeps for itself, what its children have.
    `allocated` is in use below it, `borrowed` the part of it from outside, `lent` what others hold of
    the node's own now, shared among all lenders in proportion to what they leave unused.
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
    """One node with its lines, flavors by name. `pending` is what waits in the queues below it."""

    node: QuotaNode
    name: str
    queue: str
    lines: Sequence[QuotaLine]
    pending_jobs: int
    pending_cards: int

    @property
    def etag(self) -> str:
        """The strong entity tag of the node's quota."""
        return f'"{self.node.version}"'


@dataclass(slots=True)
class _Use:
    """What one node itself has of one key, and how it stands."""

    kept: Amount
    lending_limit: Amount
    used: int = 0
    lent: int = 0

    @property
    def borrowed(self) -> int:
        return 0 if self.kept is None else max(0, self.used - self.kept)

    @property
    def spare(self) -> int:
        free = 0 if self.kept is None else max(0, self.kept - self.used)
        return free if self.lending_limit is None else min(free, self.lending_limit)


class QuotaTable:
    """Everything about a cell's quotas that tables show, from a fixed number of queries."""

    def __init__(self, cell_id: uuid.UUID) -> None:
        rows = tree_rows(cell_id)
        self.nodes = {node.pk: node for node in rows.nodes}
        self.parents = {node.pk: node.parent_id for node in rows.nodes}
        self.names = node_names(set(self.nodes))
        self._children: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
        for pk in sorted(self.nodes, key=lambda pk: (self.names[pk], str(pk))):
            above = self.parents[pk]
            if above is not None:
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
        return [self._node_quota(rows[pk], lines[pk]) for pk in wanted]

    def _node_quota(self, node: QuotaNode, lines: Sequence[QuotaLine]) -> NodeQuota:
        below = [self._demand[leaf] for leaf in self._below(node.pk) if leaf in self._demand]
        return NodeQuota(
            node=node,
            name=self.names[node.pk],
            queue=node.queue.name if node.is_queue else "",
            lines=lines,
            pending_jobs=sum(demand.jobs for demand in below),
            pending_cards=sum(demand.cards for demand in below),
        )

    def _add_lines(
        self, lines: Mapping[uuid.UUID, list[QuotaLine]], flavor: Flavor, resource: Resource
    ) -> None:
        limits, used = self._limits[flavor.pk, resource], self._used[flavor.pk, resource]
        if not limits and not used:
            return
        has = totals(self.parents, {pk: one.nominal for pk, one in limits.items()})
        uses = self._uses(limits, used)
        for pk, found in lines.items():
            below = [uses[leaf] for leaf in self._below(pk)]
            borrowed, lent = sum(use.borrowed for use in below), sum(use.lent for use in below)
            # What one child lends to another does not leave the node.
            inside = min(borrowed, lent)
            allocated = sum(use.used for use in below)
            if pk not in limits and has[pk] == 0 and not allocated:
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
                    allocated=allocated,
                    borrowed=borrowed - inside,
                    lent=lent - inside,
                )
            )

    def _uses(
        self, limits: Mapping[uuid.UUID, Limits], used: Mapping[uuid.UUID, int]
    ) -> dict[uuid.UUID, _Use]:
        uses = {
            pk: _Use(own.nominal, own.lending_limit, used.get(pk, 0))
            for pk in self.nodes
            for own in (limits.get(pk, NOTHING),)
        }
        spare = sum(use.spare for use in uses.values())
        rest = min(spare, sum(use.borrowed for use in uses.values()))
        for pk in sorted(uses, key=str):
            use = uses[pk]
            use.lent = rest * use.spare // spare if spare else 0
            spare -= use.spare
            rest -= use.lent
        return uses

    def _below(self, node_id: uuid.UUID) -> list[uuid.UUID]:
        found = [node_id]
        for pk in found:
            found.extend(self._children[pk])
        return found


def _sum(amounts: Iterable[Amount]) -> Amount:
    total: Amount = 0
    for amount in amounts:
        total = plus(total, amount)
    return total


def quota_nodes(viewer: Actor, tenant: Tenant | None = None) -> list[QuotaNode]:
    """Nodes of tenants in the viewer's sight, parents first; of one tenant and its children only when given.

    Raises: NotFound, PermissionDenied.
    """
    nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue")
    if tenant is not None:
        permissions.require(viewer, Permission.QUOTA_VIEW, tenant)
        return list(nodes.filter(tenant=tenant).order_by("cell__name", "is_queue", "pk"))
    seen = nodes.filter(tenant__in=permissions.visible_tenants(viewer))
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
