"""The quota tree of one pool as a viewer sees it: rows of all levels, read page by page."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.hooks.job_effects import get_provider
from quotas.models import Queue, QuotaNode
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.quota_sums import QuotaSums
from quotas.tree.limits import Amount, add_amounts
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import TenantKind

ROWS_FIRST: Final = 60
"""The number of rows shown at first: levels are opened from the top down as long as they fit."""
CHILDREN_MAX: Final = 50
"""The number of children of a node shown at a time."""
FOUND_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """The quota of one node for one resource, in the resource's unit. None is unlimited.

    `nominal` = `own_nominal` + `distributed`. `borrowed` lies within `reserved`, `lent` within `nominal`.
    """

    nominal: Amount
    own_nominal: Amount
    distributed: Amount
    reserved: int
    borrowing_limit: Amount
    lending_limit: Amount
    borrowed: int
    lent: int

    @property
    def free(self) -> Amount:
        """The part of the nominal that is not reserved; None where the nominal is unlimited."""
        return (
            None if self.nominal is None else max(0, self.nominal - self.reserved + self.borrowed - self.lent)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTreeRow:
    """A node with its amounts. `parent_id` is None where the viewer may not see the parent.

    `may_edit`: the viewer may set its nominal. `children` counts those in sight, `is_open` says that (some
    of) them are shown below. `followed`: the resources of which its only queue has all quota.
    """

    node_id: uuid.UUID
    parent_id: uuid.UUID | None
    depth: int
    tenant_id: uuid.UUID
    tenant: str
    slug: str
    queue: str
    is_folder: bool
    version: int
    amounts: dict[Resource, ResourceQuota]
    children: int
    is_open: bool
    may_edit: bool
    followed: frozenset[Resource]

    @property
    def name(self) -> str:
        """The name of the queue, or of the tenant."""
        return self.queue or self.tenant


@dataclass(frozen=True, slots=True)
class MoreRows:
    """The place below a node's children of which only some are shown."""

    node_id: uuid.UUID
    depth: int
    offset: int
    left: int


TreeRows = Sequence[QuotaTreeRow | MoreRows]


@dataclass(frozen=True, slots=True)
class _Named:
    node_id: uuid.UUID
    parent_id: uuid.UUID | None
    tenant: str
    slug: str
    is_folder: bool
    queue: str
    version: int

    @property
    def order(self) -> tuple[bool, str, str]:
        return bool(self.queue), (self.queue or self.tenant).casefold(), str(self.node_id)


def tree_flavors(viewer: Actor) -> list[Flavor]:
    """Return the pools of all cells in which the viewer may see quota, by name."""
    nodes = QuotaNode.unscoped.filter(tenant__in=quota_tenants(viewer))
    return list_flavors(set(nodes.order_by().values_list("cell_id", flat=True).distinct()))


class _Everything:
    """A container that contains every value."""

    def __contains__(self, _item: object) -> bool:
        return True


def tenants_with_point(viewer: Actor, point: Permission) -> Container[uuid.UUID]:
    """Return the tenants on which a viewer has a permission; nothing is read if the viewer has it on all
    tenants.
    """
    if permissions.has_permission(viewer, point):
        return _Everything()
    return set(permissions.tenants_with(viewer, point).order_by().values_list("pk", flat=True))


@row_scope.whole()
def _closed_nodes(cell_id: uuid.UUID) -> set[uuid.UUID]:
    """Return the nodes of deleted queues: they are not shown, but what they reserve counts."""
    closed = Queue.unscoped.filter(cell=cell_id, closed_at__isnull=False)
    return set(closed.values_list("node_id", flat=True))


class QuotaTreeView:
    """The tree of one pool in a viewer's sight. `resources` are those of which amounts are shown."""

    def __init__(self, viewer: Actor, flavor: Flavor, resources: Sequence[Resource]) -> None:
        self.flavor = flavor
        self._viewer = viewer
        self._cell_id = flavor.cluster.cell_id
        self.sums = QuotaSums(self._cell_id, flavors=[flavor.pk], resources=resources)
        self.by_resource = {resource: self.sums.get_sums((flavor.pk, resource)) for resource in resources}
        self.seen = tenants_with_point(viewer, Permission.QUOTA_VIEW)
        self._places = {place.pk: place for place in self.sums.places if place.tenant_id in self.seen}
        self.children: defaultdict[uuid.UUID | None, list[uuid.UUID]] = defaultdict(list)
        closed = _closed_nodes(self._cell_id)
        for place in self._places.values():
            if place.pk in closed:
                continue
            parent = place.parent_id if place.parent_id in self._places else None
            self.children[parent].append(place.pk)

    def read_first(self, also: uuid.UUID | None = None) -> TreeRows:
        """Return the rows from the top down to the level that still fits; `also` names a node to open."""
        opened = self._open_first()
        node = also if also in self._places else None
        while node is not None:
            opened.add(node)
            node = self.parent_of(node)
        return self._read(opened)

    def read_children(self, node_id: uuid.UUID, offset: int = 0) -> TreeRows:
        """Return the children of a node from `offset` on, closed. Raises: NotFound."""
        if node_id not in self._places:
            raise NotFound(_("Quota not found."))
        depth, above = 1, self._places[node_id].parent_id
        while above in self._places:
            depth, above = depth + 1, self._places[above].parent_id
        named = self._name(Q(parent=node_id))
        return list(self._below(node_id, depth, named, set(), offset))

    def search_nodes(self, text: str) -> tuple[TreeRows, bool]:
        """Return the nodes whose names contain `text` with those above them, and whether there are more."""
        wanted = Q(is_queue=False, tenant__name__icontains=text) | Q(queue__name__icontains=text)
        wanted |= Q(is_queue=False, tenant__slug__icontains=text)
        rows = self._in_sight().filter(wanted).order_by("tenant__path", "is_queue", "pk")
        found = list(rows.values_list("pk", flat=True)[: FOUND_MAX + 1])
        shown: set[uuid.UUID] = set()
        opened: set[uuid.UUID] = set()
        for pk in found[:FOUND_MAX]:
            node: uuid.UUID | None = pk
            while node in self._places:
                shown.add(node)
                node = self._places[node].parent_id
                if node in self._places:
                    opened.add(node)
        return self._read(opened, shown), len(found) > FOUND_MAX

    @cached_property
    @row_scope.whole()
    def pending(self) -> dict[Resource, list[int]]:
        """The requests of pending jobs at and below each node, by position.

        Jobs that may start in this pool are counted: GPUs, and CPU and memory where these are shown. Jobs
        that may start in several pools count in each.
        """
        queues = [place.pk for place in self.sums.places if place.is_queue]
        demand, flavor = get_provider().count_pending(queues), self.flavor.pk
        cards = {pk: of.flavor_cards.get(flavor, 0) for pk, of in demand.items()}
        found = {Resource.GPU_CARDS: self.sum_below(cards)}
        for resource in self.by_resource.keys() & {Resource.CPU, Resource.MEMORY}:
            amounts = {pk: of.flavor_amounts.get((flavor, resource), 0) for pk, of in demand.items()}
            found[resource] = self.sum_below(amounts)
        return found

    def pending_at(self, node_id: uuid.UUID, resource: Resource) -> int:
        """Return the GPUs, CPU or memory for which jobs at and below a node are pending."""
        return self.pending[resource][self.sums.order.positions[node_id]]

    def sum_below(self, amounts: Mapping[uuid.UUID, int]) -> list[int]:
        """Sum amounts of nodes over each node and all below it, by position."""
        counts = [0] * len(self.sums.order)
        for node, amount in amounts.items():
            counts[self.sums.order.positions[node]] += amount
        return self.sums.order.sum_counts(counts)

    def parent_of(self, node_id: uuid.UUID) -> uuid.UUID | None:
        """Return the parent of a node, None where the viewer may not see it."""
        parent = self._places[node_id].parent_id
        return parent if parent in self._places else None

    def _open_first(self) -> set[uuid.UUID]:
        """Return the nodes that are open at first, level by level; a level that does not fit is opened in
        part.
        """
        opened: set[uuid.UUID] = set()
        level = self.children[None]
        shown = len(level)
        while level:
            below: list[uuid.UUID] = []
            for node in level:
                children = self.children.get(node, ())
                # Queues are shown only after their workspace is opened.
                if not children or self._places[children[0]].is_queue:
                    continue
                if shown + min(len(children), CHILDREN_MAX) > ROWS_FIRST:
                    return opened
                opened.add(node)
                shown += min(len(children), CHILDREN_MAX)
                below += children
            level = below
        return opened

    def _read(self, opened: set[uuid.UUID], only: set[uuid.UUID] | None = None) -> TreeRows:
        wanted = Q(parent__in=opened) | Q(pk__in=self.children[None])
        if only is not None:
            wanted = Q(pk__in=only)
        named = self._name(wanted)
        return list(self._below(None, 0, named, opened, 0, every=only is not None))

    def _below(
        self,
        node_id: uuid.UUID | None,
        depth: int,
        named: dict[uuid.UUID | None, list[_Named]],
        opened: set[uuid.UUID],
        offset: int,
        *,
        every: bool = False,
    ) -> Iterator[QuotaTreeRow | MoreRows]:
        children = named.get(node_id, [])
        end = len(children) if every or node_id is None else offset + CHILDREN_MAX
        for child in children[offset:end]:
            yield self._row(child, node_id, depth, child.node_id in opened)
            if child.node_id in opened:
                yield from self._below(child.node_id, depth + 1, named, opened, 0, every=every)
        if len(children) > end and node_id is not None:
            yield MoreRows(node_id, depth, end, len(children) - end)

    def _in_sight(self) -> QuerySet[QuotaNode]:
        nodes = QuotaNode.unscoped.filter(cell=self._cell_id, tenant__in=quota_tenants(self._viewer))
        return nodes.exclude(queue__closed_at__isnull=False)

    def _name(self, wanted: Q) -> dict[uuid.UUID | None, list[_Named]]:
        """Return the named nodes in sight by their parent, None for those at the top; in their order."""
        names = ("tenant__name", "tenant__slug", "tenant__kind", "queue__name")
        found: defaultdict[uuid.UUID | None, list[_Named]] = defaultdict(list)
        for pk, parent, name, slug, kind, queue, version in (
            self._in_sight().filter(wanted).order_by().values_list("pk", "parent_id", *names, "version")
        ):
            above = parent if parent in self._places else None
            is_folder = kind == TenantKind.FOLDER
            found[above].append(_Named(pk, above, name, slug, is_folder, queue or "", version))
        for rows in found.values():
            rows.sort(key=lambda row: row.order)
        return dict(found)

    def _row(self, named: _Named, parent: uuid.UUID | None, depth: int, is_open: bool) -> QuotaTreeRow:
        place = self._places[named.node_id]
        return QuotaTreeRow(
            node_id=named.node_id,
            parent_id=parent,
            depth=depth,
            tenant_id=place.tenant_id,
            tenant=named.tenant,
            slug=named.slug,
            queue=named.queue,
            is_folder=named.is_folder,
            version=named.version,
            amounts=self.amounts_of(named.node_id),
            children=len(self.children.get(named.node_id, ())),
            is_open=is_open,
            may_edit=self._may_edit(named.node_id),
            followed=self._followed(named.node_id),
        )

    def _followed(self, node_id: uuid.UUID) -> frozenset[Resource]:
        children, position = self.children.get(node_id, ()), self.sums.order.positions[node_id]
        if len(children) != 1 or not self._places[children[0]].is_queue:
            return frozenset()
        sums = self.by_resource
        return frozenset(resource for resource in sums if sums[resource].own_nominals[position] == 0)

    def amounts_of(self, node_id: uuid.UUID) -> dict[Resource, ResourceQuota]:
        """Return the amounts of a node by resource."""
        position = self.sums.order.positions[node_id]
        found = {}
        for resource, sums in self.by_resource.items():
            distributed: Amount = 0
            for child in self.sums.order.children[position]:
                distributed = add_amounts(distributed, sums.nominals[child])
            limits = sums.limits[position]
            found[resource] = ResourceQuota(
                nominal=sums.nominals[position],
                own_nominal=sums.own_nominals[position],
                distributed=distributed,
                reserved=sums.reserved[position],
                borrowing_limit=None if limits is None else limits.borrowing_limit,
                lending_limit=None if limits is None else limits.lending_limit,
                borrowed=sums.borrowed[position],
                lent=sums.lent[position],
            )
        return found

    def _may_edit(self, node_id: uuid.UUID) -> bool:
        """Return whether the viewer may set the nominal: a queue's in its workspace, a tenant's above it."""
        place = self._places[node_id]
        if place.is_queue:
            return place.tenant_id in self._dividable
        if place.parent_id is None:
            return permissions.has_permission(self._viewer, Permission.QUOTA_EDIT)
        above = self._places.get(place.parent_id)
        return above is not None and above.tenant_id in self._dividable

    @cached_property
    def _dividable(self) -> Container[uuid.UUID]:
        return tenants_with_point(self._viewer, Permission.QUOTA_EDIT)
