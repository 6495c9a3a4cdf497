"""The quota that a folder lacks to distribute an amount, and tenants that have it unassigned or unused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import QuotaNode
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.quota_sums import QuotaSums
from quotas.tree.limits import Amount
from tenants.access import permissions
from tenants.access.permissions import Permission

SIBLINGS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class QuotaSource:
    """A tenant in sight that has quota left, in percent points of a GPU: an ancestor with unassigned quota,
    or a sibling with unused quota.

    `of` is the nominal of a sibling.
    """

    node: QuotaNode
    amount: Amount
    is_above: bool
    of: Amount = None


@dataclass(frozen=True, slots=True)
class Raise:
    """The amounts by which nominals of a tenant have to be raised, and the nominals that it would have."""

    node: QuotaNode
    increases: Mapping[Resource, int]
    nominals: Mapping[Resource, int]


@dataclass(frozen=True, slots=True)
class QuotaLack:
    """The amounts of a pool that a tenant lacks in order to distribute a wanted amount.

    `raises` would cover them, from the tenant upwards; they are empty where the tenants above lack them too,
    or the viewer may not decide about all of them. `exceeds_pool`: the root would need more than the pool
    has. `available` is what the tenant could distribute after such raises.
    """

    node: QuotaNode
    flavor: Flavor
    short: Mapping[Resource, int]
    raises: Sequence[Raise]
    exceeds_pool: bool
    available: Mapping[Resource, Amount]
    sources: Sequence[QuotaSource]


def find_lack(
    viewer: Actor,
    node: QuotaNode,
    flavor: Flavor,
    wanted: Mapping[Resource, int],
    *,
    asking: uuid.UUID | None = None,
    sums: QuotaSums | None = None,
) -> QuotaLack | None:
    """Find what a node lacks to give `wanted` to a child; None where it lacks nothing.

    `asking` is the child, which is no source. `sums` are those of the cell, where the caller has read them.
    Only tenants in the viewer's sight are named.
    """
    sums = sums or QuotaSums(node.cell_id, flavors=[flavor.pk])
    way = list(_go_up(sums, node))
    nodes = _read_nodes(viewer, sums, way, node, asking)
    lack = _Lack(viewer, sums, flavor, [nodes.get(pk) for pk in way], way)
    left = {resource: lack.list_left(resource, amount) for resource, amount in wanted.items()}
    short = {resource: of[0] for resource, of in left.items() if of and of[0]}
    if not short:
        return None
    beyond = {resource: left[resource][-1] for resource in short if left[resource][-1]}
    return QuotaLack(
        node=nodes.get(node.pk, node),
        flavor=flavor,
        short=short,
        raises=lack.list_raises({resource: left[resource] for resource in short}),
        exceeds_pool=lack.exceeds_pool(beyond),
        available={resource: lack.compute_available(resource) for resource in wanted},
        sources=[*lack.list_above(), *lack.list_beside(node, nodes, asking)],
    )


def _go_up(sums: QuotaSums, node: QuotaNode) -> Iterator[uuid.UUID]:
    position: int | None = sums.order.positions[node.pk]
    while position is not None:
        yield sums.order.nodes[position]
        position = sums.order.parents[position]


def _read_nodes(
    viewer: Actor, sums: QuotaSums, way: Sequence[uuid.UUID], node: QuotaNode, asking: uuid.UUID | None
) -> dict[uuid.UUID, QuotaNode]:
    """Return the nodes in sight on the path to the root, and the tenants below the first one."""
    beside = (sums.order.nodes[child] for child in sums.order.children[sums.order.positions[node.pk]])
    wanted = {*way, *(pk for pk in beside if pk != asking)}
    rows = QuotaNode.unscoped.filter(pk__in=wanted, tenant__in=quota_tenants(viewer))
    return rows.select_related("tenant__parent", "queue").in_bulk()


class _Lack:
    def __init__(
        self,
        viewer: Actor,
        sums: QuotaSums,
        flavor: Flavor,
        nodes: Sequence[QuotaNode | None],
        way: Sequence[uuid.UUID],
    ) -> None:
        self._viewer, self._sums, self._flavor, self._nodes = viewer, sums, flavor, nodes
        self._positions = [sums.order.positions[pk] for pk in way]
        self._creates = permissions.has_permission(viewer, Permission.QUOTA_EDIT)

    def list_left(self, resource: Resource, wanted: int) -> list[int]:
        """Return what remains of an amount after each level contributed what it has unassigned."""
        sums, left, found = self._sums.get_sums((self._flavor.pk, resource)), wanted, []
        for position in self._positions:
            own, nominal = sums.own_nominals[position], sums.nominals[position]
            left = 0 if own is None or nominal is None else max(0, left - own)
            found.append(left)
        return found

    def list_raises(self, left: Mapping[Resource, Sequence[int]]) -> list[Raise]:
        """Return the raises that cover what is left at each level; none where they are not possible."""
        found = []
        for level, node in enumerate(self._nodes):
            increases = {resource: of[level] for resource, of in left.items() if of[level]}
            if not increases:
                break
            if node is None or not self._may_raise(node, increases):
                return []
            nominals = {
                resource: (self._nominal(resource, level) or 0) + amount
                for resource, amount in increases.items()
            }
            found.append(Raise(node, increases, nominals))
        return found

    def compute_available(self, resource: Resource) -> Amount:
        """Return what the levels have unassigned together; None is unlimited."""
        sums, total = self._sums.get_sums((self._flavor.pk, resource)), 0
        for node, position in zip(self._nodes, self._positions, strict=True):
            own = sums.own_nominals[position]
            if own is None or sums.nominals[position] is None:
                return None
            total += own
            if node is None or not self._decides(node):
                break  # the viewer may not distribute the quota of the tenants above
        return total

    def exceeds_pool(self, increases: Mapping[Resource, int]) -> bool:
        """Return whether the root would have more than the pool."""
        size, root = pool_sizes([self._flavor])[self._flavor.pk], len(self._positions) - 1
        for resource, amount in increases.items():
            exists = size.nodes[resource] if resource in size.nodes else size.gpus[resource]
            if exists is not None and (self._nominal(resource, root) or 0) + amount > exists:
                return True
        return False

    def list_above(self) -> Iterator[QuotaSource]:
        """Yield the levels above the first one that have some of the pool's GPUs unassigned."""
        sums = self._sums.get_sums((self._flavor.pk, Resource.GPU_CORES))
        for node, position in list(zip(self._nodes, self._positions, strict=True))[1:]:
            if node is not None and sums.own_nominals[position] != 0:
                yield QuotaSource(node, sums.own_nominals[position], is_above=True)

    def list_beside(
        self, parent: QuotaNode, nodes: Mapping[uuid.UUID, QuotaNode], asking: uuid.UUID | None
    ) -> list[QuotaSource]:
        """Return the children of the first level that leave most of their nominal free."""
        sums, found = self._sums.get_sums((self._flavor.pk, Resource.GPU_CORES)), []
        for child in self._sums.order.children[self._sums.order.positions[parent.pk]]:
            node, nominal = nodes.get(self._sums.order.nodes[child]), sums.nominals[child]
            if node is None or node.pk == asking or nominal is None:
                continue
            free = max(0, nominal - sums.reserved[child] + sums.borrowed[child] - sums.lent[child])
            if free:
                found.append(QuotaSource(node, free, is_above=False, of=nominal))
        return sorted(found, key=lambda one: (-(one.amount or 0), one.node.tenant.name))[:SIBLINGS_MAX]

    def _nominal(self, resource: Resource, level: int) -> Amount:
        return self._sums.get_sums((self._flavor.pk, resource)).nominals[self._positions[level]]

    def _decides(self, node: QuotaNode) -> bool:
        return permissions.has_permission(self._viewer, Permission.QUOTA_EDIT, node.tenant.parent)

    def _may_raise(self, node: QuotaNode, increases: Mapping[Resource, int]) -> bool:
        """Return whether the viewer may raise a node; platform admins may raise the root up to the size of
        the pool.
        """
        if node.tenant.parent is not None:
            return self._decides(node)
        return self._creates and not self.exceeds_pool(increases)
