"""The quota of nodes as pages show it: limits, totals, reserved quota, and what could be reserved."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor, GpuMode
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.room import compute_rooms
from quotas.distribution.subtree_sums import sum_subtrees
from quotas.hooks.job_effects import PendingDemand, get_provider
from quotas.models import FlavorKey, Queue, QuotaNode
from quotas.selectors.limits.tree import read_bounds
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.node_names import node_names
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_sums import QuotaSums
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
    `pending_amounts` is the same for compute, CPU and memory. `queue_nodes` are those of the queues below it,
    or its own; deleted ones count, since their jobs may still run.
    """

    node: QuotaNode
    name: str
    queue: str
    rows: Sequence[QuotaRow]
    pending_jobs: int
    pending_cards: int
    pending_flavors: Mapping[uuid.UUID, int]
    pending_amounts: Mapping[FlavorKey, int]
    queue_nodes: Sequence[uuid.UUID]

    def get_pending(self, row: QuotaRow) -> int | None:
        """Return what waiting jobs request of the resource of a row; None if that isn't counted.

        The compute of a MIG instance depends on the pool, and GPU memory may be a part of that of a GPU.
        """
        if row.resource is Resource.GPU_CARDS:
            return self.pending_flavors.get(row.flavor.pk, 0)
        if row.resource is Resource.GPU_CORES and row.flavor.gpu_mode == GpuMode.MIG:
            return None
        if row.resource in (Resource.GPU_CORES, Resource.CPU, Resource.MEMORY):
            return self.pending_amounts.get((row.flavor.pk, row.resource), 0)
        return None

    @property
    def assigned_rows(self) -> list[QuotaRow]:
        """The rows without those of what the node may only borrow."""
        return [row for row in self.rows if row.is_assigned]

    @property
    def etag(self) -> str:
        """The strong entity tag of the node's quota."""
        return f'"{self.node.version}"'


class QuotaTable:
    """The quotas of a cell as tables show them, from a fixed number of queries.

    `flavors` and `resources` narrow it to what a page needs.
    """

    @row_scope.whole()
    def __init__(
        self,
        cell_id: uuid.UUID,
        *,
        flavors: Collection[uuid.UUID] | None = None,
        resources: Collection[Resource] = tuple(Resource),
    ) -> None:
        self._cell_id = cell_id
        self._sums = QuotaSums(cell_id, flavors=flavors, resources=resources)
        self._order = self._sums.order
        self.nodes = {place.pk: place for place in self._sums.places}
        known = Flavor.unscoped.filter(cluster__cell_id=cell_id).select_related("cluster")
        self.flavors = {flavor.pk: flavor for flavor in known.order_by("name", "pk")}
        self._bounds = read_bounds(self._sums.places)

    @cached_property
    @row_scope.whole()
    def closed(self) -> set[uuid.UUID]:
        """Nodes of deleted queues: they have no quota and are not shown, but what they reserve counts."""
        closed = Queue.unscoped.filter(cell=self._cell_id, closed_at__isnull=False)
        return set(closed.values_list("node_id", flat=True))

    def child_nodes(self, node_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Return the nodes right below a node, by name."""
        children = self._order.children[self._order.positions[node_id]]
        found = [pk for pk in (self._order.nodes[child] for child in children) if pk not in self.closed]
        names = self.name_nodes(found)
        return sorted(found, key=lambda pk: (names[pk], str(pk)))

    @row_scope.whole()
    def name_nodes(self, wanted: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Return the names of nodes."""
        return node_names(wanted)

    def read_quotas(self, wanted: Sequence[uuid.UUID]) -> list[NodeQuota]:
        """Return the nodes with their rows, in the order asked for."""
        nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").in_bulk(wanted)
        names = {pk: nodes[pk].queue.name if nodes[pk].is_queue else "" for pk in wanted if pk in nodes}
        rows = self.compute_rows(names)
        queues = {pk: self._queues_below(pk) for pk in rows}
        demand = self._count_pending({queue for below in queues.values() for queue in below})
        return [
            _node_quota(nodes[pk], of, queues[pk], [demand[queue] for queue in queues[pk] if queue in demand])
            for pk, of in rows.items()
        ]

    def compute_rows(self, queues: Mapping[uuid.UUID, str]) -> dict[uuid.UUID, list[QuotaRow]]:
        """Compute the rows of nodes: flavors by name, resources in their order.

        `queues` are by node the name of its queue, empty at a tenant.
        """
        found: dict[uuid.UUID, list[QuotaRow]] = {pk: [] for pk in queues}
        stored = self._sums.keys
        for flavor in self.flavors.values():
            for resource in Resource:
                if (flavor.pk, resource) in stored:
                    for pk, row in self._rows(queues, flavor, resource):
                        found[pk].append(row)
        return found

    def _rows(
        self, queues: Mapping[uuid.UUID, str], flavor: Flavor, resource: Resource
    ) -> Iterator[tuple[uuid.UUID, QuotaRow]]:
        sums, order = self._sums.get_sums((flavor.pk, resource)), self._order
        positions = {pk: order.positions[pk] for pk in queues}
        bounded = self._bound_limits(sums.limits, flavor.pk, resource)
        below = sums.subtree_sums if bounded is sums.limits else sum_subtrees(order, bounded, sums.charged)
        rooms = compute_rooms(order, bounded, sums.charged, below, positions.values())
        for pk, position in positions.items():
            own, room = sums.limits[position] or NOTHING, rooms[position]
            row = QuotaRow(
                queue=queues[pk],
                flavor=flavor,
                resource=resource,
                nominal=sums.nominals[position],
                own_nominal=own.own_nominal,
                distributed=_sum(sums.nominals[child] for child in order.children[position]),
                borrowing_limit=own.borrowing_limit,
                lending_limit=own.lending_limit,
                reserved=sums.reserved[position],
                borrowed=sums.borrowed[position],
                lent=sums.lent[position],
                available=_not_below_zero(room.available),
                potential=_not_below_zero(room.potential),
                has_limits=sums.limits[position] is not None,
            )
            if row.is_assigned or row.potential != 0:
                yield pk, row

    def _bound_limits(
        self, limits: Sequence[NodeLimits | None], flavor_id: uuid.UUID, resource: Resource
    ) -> Sequence[NodeLimits | None]:
        """Return the limits with those that apply to admission; pages show the limits as they are stored."""
        bounds = {
            self._order.positions[node]: quota.limits
            for node, quotas in self._bounds.items()
            for quota in quotas
            if (quota.flavor_id, quota.resource) == (flavor_id, resource)
        }
        return [bounds.get(at, of) for at, of in enumerate(limits)] if bounds else limits

    def _queues_below(self, node_id: uuid.UUID) -> list[uuid.UUID]:
        found = [self._order.positions[node_id]]
        for position in found:
            found.extend(self._order.children[position])
        nodes = (self._order.nodes[position] for position in found)
        return [pk for pk in nodes if self.nodes[pk].is_queue]

    @row_scope.whole()
    def _count_pending(self, queues: Collection[uuid.UUID]) -> Mapping[uuid.UUID, PendingDemand]:
        return get_provider().count_pending(list(queues))


def _node_quota(
    node: QuotaNode, rows: Sequence[QuotaRow], queues: Sequence[uuid.UUID], below: Sequence[PendingDemand]
) -> NodeQuota:
    queue = node.queue.name if node.is_queue else ""
    return NodeQuota(
        node=node,
        name=f"{node.tenant.name} / {queue}" if queue else node.tenant.name,
        queue=queue,
        rows=rows,
        pending_jobs=sum(demand.jobs for demand in below),
        pending_cards=sum(demand.cards for demand in below),
        pending_flavors=sum((Counter(demand.flavor_cards) for demand in below), Counter()),
        pending_amounts=sum((Counter(demand.flavor_amounts) for demand in below), Counter()),
        queue_nodes=queues,
    )


def _not_below_zero(amount: Amount) -> Amount:
    return None if amount is None else max(0, amount)


def _sum(amounts: Iterable[Amount]) -> Amount:
    total: Amount = 0
    for amount in amounts:
        total = add_amounts(total, amount)
    return total


def quota_nodes(viewer: Actor, tenant: Tenant | None = None) -> QuerySet[QuotaNode]:
    """Return the nodes of tenants whose quota the viewer may see, parents first; of one tenant when given.

    Raises: NotFound, PermissionDenied.
    """
    nodes = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue")
    nodes = nodes.exclude(queue__closed_at__isnull=False)
    if tenant is not None:
        permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
        return nodes.filter(tenant=tenant).order_by("cell__name", "is_queue", "pk")
    seen = nodes.filter(tenant__in=quota_tenants(viewer))
    return seen.order_by("cell__name", "tenant__path", "is_queue", "pk")


def quota_node_get(viewer: Actor, pk: uuid.UUID) -> QuotaNode:
    """Return one node by id.

    Raises: NotFound, also for a node of a tenant that the viewer cannot see; PermissionDenied.
    """
    node = QuotaNode.unscoped.select_related("tenant__parent", "cell", "queue").filter(pk=pk).first()
    if node is None:
        raise NotFound(_("Quota not found."))
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    return node


def quota_nodes_get(viewer: Actor, wanted: Collection[uuid.UUID]) -> dict[uuid.UUID, QuotaNode]:
    """Return several nodes by id.

    Raises: NotFound if one does not exist or belongs to a tenant that the viewer cannot see;
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
    """Return a folder or workspace by slug.

    Raises: NotFound, PermissionDenied.
    """
    tenant = Tenant.unscoped.filter(slug=slug).select_related("parent").first()
    if tenant is None:
        raise NotFound(_("Tenant %(name)s not found, or you can't view it.") % {"name": slug})
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    return tenant


def node_quota(viewer: Actor, node: QuotaNode) -> NodeQuota:
    """Return one node with its rows.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    return QuotaTable(node.cell_id).read_quotas([node.pk])[0]


def tenant_quota_table(
    viewer: Actor, tenant: Tenant, cell: Cell, resources: Collection[Resource] = tuple(Resource)
) -> list[NodeQuota]:
    """Return the tenant's node, then its children by name; empty where the tenant has no node in the cell.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    table = QuotaTable(cell.pk, resources=resources)
    own = [pk for pk, node in table.nodes.items() if node.tenant_id == tenant.pk and not node.is_queue]
    return table.read_quotas([*own, *(child for pk in own for child in table.child_nodes(pk))])
