"""The quota of a pool for diagrams: how each tenant's nominal is used, and which tenants lend and borrow."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from foundation.core.quantities import Resource
from quotas.selectors.tables.quota_tree import QuotaTreeView
from tenants.models import Tenant, TenantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSlice:
    """A tenant in a diagram, in the resource's unit.

    For a workspace `nominal` = `allocated` + `lent` + `free`; `allocated` is the part of its nominal that it
    reserves itself, `borrowed` is in addition to that. `own_nominal` is what a folder did not distribute,
    `own_in_use` the reserved part of it. A nominal of None is unlimited and cannot be drawn.
    """

    node_id: uuid.UUID
    parent_id: uuid.UUID | None
    tenant_id: uuid.UUID
    name: str
    is_folder: bool
    nominal: int | None
    own_nominal: int | None
    own_in_use: int
    allocated: int
    borrowed: int
    lent: int

    @property
    def free(self) -> int:
        """The part of the nominal that is not reserved; 0 where it is unlimited."""
        return 0 if self.nominal is None else max(0, self.nominal - self.allocated - self.lent)


class FlowSide(StrEnum):
    """The end of a flow that is no tenant: quota of a folder itself, other tenants, or outside all quota."""

    UNASSIGNED = "unassigned"
    OTHERS = "others"
    OVER_QUOTA = "over-quota"


@dataclass(frozen=True, slots=True)
class QuotaFlow:
    """An amount that flows from one end to another: `source` and `target` are nodes, or a side at a node.

    Quota is lent to the shared quota of a folder and borrowed from it; pairs of lender and borrower are not
    recorded, because the quota tree does not decide them. `is_lent` marks the direction into the folder.
    """

    source: tuple[FlowSide, uuid.UUID] | uuid.UUID
    target: tuple[FlowSide, uuid.UUID] | uuid.UUID
    amount: int
    is_lent: bool = False


class QuotaPicture:
    """The tenants in a viewer's sight and the flows between them, without queues."""

    def __init__(self, view: QuotaTreeView, resource: Resource) -> None:
        self._view = view
        self._sums = view.by_resource[resource]
        self._lent, self._borrowed = self._sums.lent, self._sums.borrowed
        self._tenants = {
            place.pk: place.tenant_id
            for place in view.sums.places
            if not place.is_queue and place.tenant_id in view.seen
        }
        names = Tenant.unscoped.filter(pk__in=set(self._tenants.values())).order_by()
        self._names = {pk: (name, kind) for pk, name, kind in names.values_list("pk", "name", "kind")}
        self.slices: Sequence[QuotaSlice] = [self._slice(node) for node in self._in_order()]
        self.flows: Sequence[QuotaFlow] = list(self._find_flows())

    def _in_order(self) -> Iterator[uuid.UUID]:
        """Yield the nodes, each after its parent, siblings by name."""
        ask = self._sorted(None)
        while ask:
            node = ask.pop()
            yield node
            ask += self._sorted(node)

    def _sorted(self, node: uuid.UUID | None) -> list[uuid.UUID]:
        found = [child for child in self._view.children.get(node, ()) if child in self._tenants]
        return sorted(found, key=lambda pk: (self._names[self._tenants[pk]][0], str(pk)), reverse=True)

    def _slice(self, node: uuid.UUID) -> QuotaSlice:
        position = self._view.sums.order.positions[node]
        nominal, reserved = self._sums.nominals[position], self._sums.reserved[position]
        name, kind = self._names[self._tenants[node]]
        return QuotaSlice(
            node_id=node,
            parent_id=self._view.parent_of(node),
            tenant_id=self._tenants[node],
            name=name,
            is_folder=kind == TenantKind.FOLDER,
            nominal=nominal,
            own_nominal=self._sums.own_nominals[position],
            own_in_use=self._own_in_use(position),
            allocated=reserved - self._borrowed[position],
            borrowed=self._borrowed[position],
            lent=self._lent[position],
        )

    def _demand(self, position: int) -> int:
        """Compute what is taken from a folder's shared quota: by its children above their quota, and by
        others.
        """
        inside = sum(self._borrowed[child] for child in self._view.sums.order.children[position])
        return max(0, inside - self._borrowed[position] + self._lent[position])

    def _own_in_use(self, position: int) -> int:
        own = self._sums.own_nominals[position]
        demand = self._demand(position)
        return demand if own is None else min(own, demand)

    def _find_flows(self) -> Iterator[QuotaFlow]:
        positions = self._view.sums.order.positions
        for one in self.slices:
            node, position = one.node_id, positions[one.node_id]
            if one.parent_id is None:
                side = FlowSide.OTHERS if self._view.sums.order.parents[position] is not None else None
                yield from self._between(one, (side or FlowSide.OVER_QUOTA, node))
            else:
                yield from self._between(one, one.parent_id)
            if not one.is_folder:
                continue
            if one.own_in_use:
                yield QuotaFlow((FlowSide.UNASSIGNED, node), node, one.own_in_use, is_lent=True)
            lent = sum(self._lent[child] for child in self._view.sums.order.children[position])
            short = self._demand(position) - one.own_in_use - lent
            if short > 0:
                yield QuotaFlow((FlowSide.OVER_QUOTA, node), node, short)

    def _between(self, one: QuotaSlice, above: tuple[FlowSide, uuid.UUID] | uuid.UUID) -> Iterator[QuotaFlow]:
        if one.lent:
            yield QuotaFlow(one.node_id, above, one.lent, is_lent=True)
        if one.borrowed:
            yield QuotaFlow(above, one.node_id, one.borrowed)
