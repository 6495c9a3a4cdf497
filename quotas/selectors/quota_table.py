"""The quota of nodes as it is shown: limits, totals, what is reserved, and what could be."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.flavor_resource import FlavorResource
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.division import compute_nominals
from quotas.hooks.job_effects import PendingDemand, get_provider
from quotas.models import FlavorKey, Queue, QuotaNode
from quotas.selectors.node_names import node_names
from quotas.selectors.quota_row import QuotaRow
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tree import build_tree, read_tree_rows, reserved_in_subtrees
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
        rows = read_tree_rows(cell_id)
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
        self._tree = build_tree(rows)
        self._limits: defaultdict[FlavorKey, dict[uuid.UUID, NodeLimits]] = defaultdict(dict)
        for quotas in rows.quotas.values():
            for quota in quotas:
                self._limits[quota.key.flavor_key][quota.node_id] = quota.limits
        self._reserved: defaultdict[FlavorKey, Counter[uuid.UUID]] = defaultdict(Counter)
        for key, amount in reserved_in_subtrees(rows).items():
            self._reserved[key.flavor_key][key.node_id] = amount

    @cached_property
    @row_scope.whole()
    def _demand(self) -> Mapping[uuid.UUID, PendingDemand]:
        return get_provider().count_pending([pk for pk, node in self.nodes.items() if node.is_queue])

    def child_nodes(self, node_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Right below a node, by name."""
        return self._children[node_id]

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
        limits, reserved = self._limits[flavor.pk, resource], self._reserved[flavor.pk, resource]
        if not limits and not reserved:
            return
        nominal = compute_nominals(self.parents, {pk: one.own_nominal for pk, one in limits.items()})
        borrowed = {pk: _above(nominal[pk], reserved[pk]) for pk in nominal}
        lent = self._lent(nominal, limits, reserved, borrowed) if any(borrowed.values()) else Counter()
        key = FlavorResource(str(flavor.pk), resource)
        for pk, queue in queues.items():
            own = limits.get(pk, NOTHING)
            row = QuotaRow(
                queue=queue,
                flavor=flavor,
                resource=resource,
                nominal=nominal[pk],
                own_nominal=own.own_nominal,
                distributed=_sum(nominal[child] for child in self.child_nodes(pk)),
                borrowing_limit=own.borrowing_limit,
                lending_limit=own.lending_limit,
                reserved=reserved[pk],
                lent=lent[pk],
                available=_not_below_zero(self._tree.available(str(pk), key)),
                potential=_not_below_zero(self._tree.potential(str(pk), key)),
                has_limits=pk in limits,
            )
            if row.is_assigned or row.potential != 0:
                yield pk, row

    def _lent(
        self,
        nominal: Mapping[uuid.UUID, Amount],
        limits: Mapping[uuid.UUID, NodeLimits],
        reserved: Mapping[uuid.UUID, int],
        borrowed: Mapping[uuid.UUID, int],
    ) -> Counter[uuid.UUID]:
        """Compute what others reserve of each node's nominal, from the root down.

        A borrower takes first the own nominal of a node above it, then what the children of that node leave
        free, in proportion; rounded so that the sums agree.
        """
        ordered = [pk for pk, parent in self.parents.items() if parent is None]
        for pk in ordered:
            ordered.extend(self._children[pk])
        spare = self._spare(ordered, nominal, limits, reserved)
        found: Counter[uuid.UUID] = Counter()
        for pk in ordered:
            children, own = self._children[pk], limits.get(pk, NOTHING).own_nominal
            inside = sum(borrowed[child] for child in children) - borrowed[pk]
            left = sum(spare[child] for child in children)
            rest = 0 if own is None else min(left, max(0, inside + found[pk] - own))
            for child in children:
                found[child] = rest * spare[child] // left if left else 0
                left -= spare[child]
                rest -= found[child]
        return found

    def _spare(
        self,
        ordered: Sequence[uuid.UUID],
        nominal: Mapping[uuid.UUID, Amount],
        limits: Mapping[uuid.UUID, NodeLimits],
        reserved: Mapping[uuid.UUID, int],
    ) -> dict[uuid.UUID, int]:
        """Compute what each node leaves free and may lend; `ordered` are the nodes, parents first."""
        found: dict[uuid.UUID, int] = {}
        for pk in reversed(ordered):
            own, total = limits.get(pk, NOTHING), nominal[pk]
            below = (own.own_nominal or 0) + sum(found[child] for child in self._children[pk])
            free = 0 if total is None else min(below, max(0, total - reserved[pk]))
            found[pk] = free if own.lending_limit is None else min(free, own.lending_limit)
        return found

    def _below(self, node_id: uuid.UUID) -> list[uuid.UUID]:
        found = [node_id]
        for pk in found:
            found.extend(self._children[pk])
        return found


def _above(nominal: Amount, reserved: int) -> int:
    return 0 if nominal is None else max(0, reserved - nominal)


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
