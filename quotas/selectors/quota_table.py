"""The quota of nodes as it is shown: limits, totals, what is reserved, and what could be."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.lending import compute_lent
from quotas.distribution.node_order import NodeOrder
from quotas.hooks.job_effects import PendingDemand, get_provider
from quotas.models import FlavorKey, Queue, QuotaNode
from quotas.models.quota_key import find_tree_key
from quotas.selectors.node_names import node_names
from quotas.selectors.quota_row import QuotaRow
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tree import build_tree, read_tree_rows, sum_reserved
from quotas.tree.limits import NOTHING, Amount, NodeLimits, add_amounts
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """One node with its rows, flavors by name.

    The fields named `pending` count the jobs that wait in the queues below it. `rows` are those of which
    the node has, reserves or could reserve something. `pending_flavors` is by flavor the cards of the
    waiting jobs that may run there; one job may count in several flavors, so these are never added up.
    """

    node: QuotaNode
    name: str
    queue: str
    rows: Sequence[QuotaRow]
    pending_jobs: int
    pending_cards: int
    pending_flavors: Mapping[uuid.UUID, int]

    @property
    def assigned_rows(self) -> list[QuotaRow]:
        """The rows without those of what the node may only borrow."""
        return [row for row in self.rows if row.is_assigned]

    @property
    def etag(self) -> str:
        """The strong entity tag of the node's quota."""
        return f'"{self.node.version}"'


class QuotaTable:
    """Everything about a cell's quotas that tables show, from a fixed number of queries."""

    @row_scope.whole()
    def __init__(self, cell_id: uuid.UUID) -> None:
        self._cell_id = cell_id
        rows = read_tree_rows(cell_id)
        self.nodes = {node.pk: node for node in rows.nodes}
        self._order = NodeOrder({node.pk: node.parent_id for node in rows.nodes})
        flavors = Flavor.unscoped.filter(cluster__cell_id=cell_id).select_related("cluster")
        self.flavors = {flavor.pk: flavor for flavor in flavors.order_by("name", "pk")}
        self._tree = build_tree(rows)
        self._limits: defaultdict[FlavorKey, list[NodeLimits | None]] = defaultdict(
            lambda: [None] * len(self._order)
        )
        for node, quotas in rows.quotas.items():
            position = self._order.positions[node]
            for quota in quotas:
                self._limits[quota.flavor_id, Resource(quota.resource)][position] = quota.limits
        self._reserved = sum_reserved(rows, self._order)

    @cached_property
    @row_scope.whole()
    def closed(self) -> set[uuid.UUID]:
        """Nodes of deleted queues: they have no quota and are not shown, but what they reserve counts."""
        closed = Queue.unscoped.filter(cell=self._cell_id, closed_at__isnull=False)
        return set(closed.values_list("node_id", flat=True))

    @cached_property
    @row_scope.whole()
    def names(self) -> dict[uuid.UUID, str]:
        """The names of all nodes."""
        return node_names(set(self.nodes))

    @cached_property
    @row_scope.whole()
    def _demand(self) -> Mapping[uuid.UUID, PendingDemand]:
        return get_provider().count_pending([pk for pk, node in self.nodes.items() if node.is_queue])

    def child_nodes(self, node_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Right below a node, by name."""
        children = self._order.children[self._order.positions[node_id]]
        found = [pk for pk in (self._order.nodes[child] for child in children) if pk not in self.closed]
        return sorted(found, key=lambda pk: (self.names[pk], str(pk)))

    def read_quotas(self, wanted: Sequence[uuid.UUID]) -> list[NodeQuota]:
        """Return the nodes with their rows, in the order asked for."""
        nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").in_bulk(wanted)
        rows = self.compute_rows(
            {pk: nodes[pk].queue.name if nodes[pk].is_queue else "" for pk in wanted if pk in nodes}
        )
        return [self._node_quota(nodes[pk], of) for pk, of in rows.items()]

    def compute_rows(self, queues: Mapping[uuid.UUID, str]) -> dict[uuid.UUID, list[QuotaRow]]:
        """Compute the rows of nodes: flavors by name, resources in their order.

        `queues` are by node the name of its queue, empty at a tenant.
        """
        found: dict[uuid.UUID, list[QuotaRow]] = {pk: [] for pk in queues}
        for flavor in self.flavors.values():
            for resource in Resource:
                for pk, row in self._rows(queues, flavor, resource):
                    found[pk].append(row)
        return found

    def _node_quota(self, node: QuotaNode, rows: Sequence[QuotaRow]) -> NodeQuota:
        below = [self._demand[leaf] for leaf in self._below(node.pk) if leaf in self._demand]
        return NodeQuota(
            node=node,
            name=self.names[node.pk],
            queue=node.queue.name if node.is_queue else "",
            rows=rows,
            pending_jobs=sum(demand.jobs for demand in below),
            pending_cards=sum(demand.cards for demand in below),
            pending_flavors=sum((Counter(demand.flavor_cards) for demand in below), Counter()),
        )

    def _rows(
        self, queues: Mapping[uuid.UUID, str], flavor: Flavor, resource: Resource
    ) -> Iterator[tuple[uuid.UUID, QuotaRow]]:
        flavor_key, order = (flavor.pk, resource), self._order
        if flavor_key not in self._limits and flavor_key not in self._reserved:
            return
        limits = self._limits[flavor_key]
        reserved = self._reserved.get(flavor_key) or [0] * len(order)
        nominals = order.sum_amounts([0 if of is None else of.own_nominal for of in limits])
        lent = compute_lent(order, limits, nominals, reserved)
        key = find_tree_key(*flavor_key)
        for pk, queue in queues.items():
            position = order.positions[pk]
            own = limits[position] or NOTHING
            row = QuotaRow(
                queue=queue,
                flavor=flavor,
                resource=resource,
                nominal=nominals[position],
                own_nominal=own.own_nominal,
                distributed=_sum(nominals[child] for child in order.children[position]),
                borrowing_limit=own.borrowing_limit,
                lending_limit=own.lending_limit,
                reserved=reserved[position],
                lent=lent[position],
                available=_not_below_zero(self._tree.available(str(pk), key)),
                potential=_not_below_zero(self._tree.potential(str(pk), key)),
                has_limits=limits[position] is not None,
            )
            if row.is_assigned or row.potential != 0:
                yield pk, row

    def _below(self, node_id: uuid.UUID) -> list[uuid.UUID]:
        found = [self._order.positions[node_id]]
        for position in found:
            found.extend(self._order.children[position])
        return [self._order.nodes[position] for position in found]


def _not_below_zero(amount: Amount) -> Amount:
    return None if amount is None else max(0, amount)


def _sum(amounts: Iterable[Amount]) -> Amount:
    total: Amount = 0
    for amount in amounts:
        total = add_amounts(total, amount)
    return total


def quota_nodes(viewer: Actor, tenant: Tenant | None = None) -> list[QuotaNode]:
    """Nodes of tenants whose quota the viewer may see, parents first; of one tenant only when given.

    Raises: NotFound, PermissionDenied.
    """
    nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue")
    nodes = nodes.exclude(queue__closed_at__isnull=False)
    if tenant is not None:
        permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
        return list(nodes.filter(tenant=tenant).order_by("cell__name", "is_queue", "pk"))
    seen = nodes.filter(tenant__in=quota_tenants(viewer))
    return list(seen.order_by("cell__name", "tenant__path", "is_queue", "pk"))


def quota_node_get(viewer: Actor, pk: uuid.UUID) -> QuotaNode:
    """One node by id.

    Raises: NotFound, also for one of a tenant that the viewer cannot see; PermissionDenied.
    """
    node = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").filter(pk=pk).first()
    if node is None:
        raise NotFound(_("Quota not found."))
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    return node


def quota_nodes_get(viewer: Actor, wanted: Collection[uuid.UUID]) -> dict[uuid.UUID, QuotaNode]:
    """Several nodes by id.

    Raises: NotFound as soon as one does not exist or is of a tenant that the viewer cannot see;
    PermissionDenied.
    """
    rows = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").filter(pk__in=wanted)
    found = {node.pk: node for node in rows.exclude(queue__closed_at__isnull=False)}
    if len(found) < len(wanted):
        raise NotFound(_("Quota not found."))
    for node in found.values():
        permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    return found


def tenant_get(viewer: Actor, slug: str) -> Tenant:
    """A folder or workspace by slug.

    Raises: NotFound, PermissionDenied.
    """
    tenant = Tenant.unscoped.filter(slug=slug).select_related("parent").first()
    if tenant is None:
        raise NotFound(_("Tenant %(name)s not found, or you can't view it.") % {"name": slug})
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    return tenant


def node_quota(viewer: Actor, node: QuotaNode) -> NodeQuota:
    """One node with its rows.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    return QuotaTable(node.cell_id).read_quotas([node.pk])[0]


def tenant_quota_table(viewer: Actor, tenant: Tenant, cell: Cell) -> list[NodeQuota]:
    """The tenant's node first, then its children by name; empty where the cell does not know the tenant.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    table = QuotaTable(cell.pk)
    own = [pk for pk, node in table.nodes.items() if node.tenant_id == tenant.pk and not node.is_queue]
    return table.read_quotas([*own, *(child for pk in own for child in table.child_nodes(pk))])
