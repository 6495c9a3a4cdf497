"""Quota nodes, quotas and queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.models import Cell, Flavor
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Queue, QueueFlavor, Quota, QuotaNode
from tenants.models import Tenant

AMPLE = {Resource.CPU: 10_000_000, Resource.MEMORY: 100_000_000}
"""CPU (millicores) and memory (MiB) that no test runs out of by accident."""


def quota_node(cell: Cell, tenant: Tenant) -> QuotaNode:
    """The tenant's node in the cell's tree; it and those above it are made where they are missing."""
    found = QuotaNode.unscoped.filter(cell=cell, tenant=tenant, is_queue=False).first()
    if found is not None:
        return found
    parent = quota_node(cell, tenant.parent) if tenant.parent else None
    return QuotaNode.unscoped.create(cell=cell, tenant=tenant, parent=parent)


def quota(
    node: QuotaNode,
    flavor: Flavor,
    resource: Resource,
    nominal: int | None,
    *,
    borrowing_limit: int | None = None,
    lending_limit: int | None = None,
) -> Quota:
    """One limit, in the resource's own unit; None is unlimited."""
    return Quota.unscoped.create(
        node=node,
        flavor=flavor,
        resource=resource,
        own_nominal=nominal,
        borrowing_limit=borrowing_limit,
        lending_limit=lending_limit,
    )


def gpu_quota(node: QuotaNode, flavor: Flavor, cards: int, **limits: int | None) -> list[Quota]:
    """Quota for that many whole cards of the flavor, with ample CPU and memory beside them."""
    amounts = {
        **AMPLE,
        Resource.GPU_CARDS: cards,
        Resource.GPU_CORES: cards * 100,
        Resource.GPU_MEMORY: cards * flavor.card_memory_mib,
    }
    return [quota(node, flavor, resource, amount, **limits) for resource, amount in amounts.items()]


def queue(
    cell: Cell,
    workspace: Tenant,
    flavors: Sequence[Flavor] = (),
    *,
    name: str = "default",
    cards: int | None = None,
    **fields: Any,
) -> Queue:
    """A queue with its leaf in the tree; `cards` gives that leaf quota for as many in each flavor."""
    parent = quota_node(cell, workspace)
    leaf = QuotaNode.unscoped.create(cell=cell, tenant=workspace, parent=parent, is_queue=True)
    made = Queue.unscoped.create(cell=cell, workspace=workspace, node=leaf, name=name, **fields)
    for position, flavor in enumerate(flavors):
        QueueFlavor.unscoped.create(queue=made, flavor=flavor, position=position)
        if cards is not None:
            gpu_quota(leaf, flavor, cards)
    return made


def reserve(of: Queue, flavor: Flavor, resource: Resource, amount: int) -> LedgerEntry:
    """Write the ledger of a queue directly."""
    return LedgerEntry.unscoped.create(node=of.node, flavor=flavor, resource=resource, reserved=amount)
