"""The quota that has to be raised so that a queue gets more."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.models import Queue
from quotas.models.queue import AllocationMode
from quotas.selectors.limits.tree import TreeRows, build_tree, read_tree_rows
from quotas.tree import FlavorResource, QuotaTree
from quotas.tree.limits import Amount


@dataclass(frozen=True, slots=True)
class BlockingNode:
    """The quota node that blocks a queue, and whether the workspace has enough unassigned quota.

    `unassigned` is by resource the quota that the workspace has not distributed to its queues; None is
    unlimited.
    """

    node: uuid.UUID
    unassigned: Mapping[Resource, Amount]
    covered: bool


def find_blocking_node(
    queue: Queue, flavor: Flavor, shorts: Mapping[Resource, int], *, borrows: bool
) -> BlockingNode:
    """Find the node whose quota has to rise by `shorts` of a flavor, so that the queue can use that much
    more.

    It is the queue where its workspace has that much unassigned: the workspace's admins divide it. Otherwise
    it is the workspace, if the queue can borrow there what the workspace gets; `borrows` says whether the job
    may borrow. Otherwise it is the queue. The caller has checked that the viewer may see these quotas.
    """
    rows, keys = (
        read_tree_rows(queue.cell_id),
        {each: FlavorResource(str(flavor.pk), each) for each in shorts},
    )
    workspace = next(node.parent_id for node in rows.nodes if node.pk == queue.node_id)
    if workspace is None:
        return BlockingNode(queue.node_id, {}, covered=True)
    own = _own_nominal(rows, workspace, flavor)
    unassigned: dict[Resource, Amount] = {each: own.get(each, 0) for each in shorts}
    if all(has is None or has >= shorts[each] for each, has in unassigned.items()):
        return BlockingNode(queue.node_id, unassigned, covered=True)
    tree = build_tree(rows)
    more = {keys[each]: short for each, short in shorts.items()}
    if borrows and queue.allocation_mode == AllocationMode.DYNAMIC:
        before = _reach(tree, queue.node_id, more)
        with tree.raised(str(workspace), more):
            after = _reach(tree, queue.node_id, more)
        if all(_rose(before[key], after[key], short) for key, short in more.items()):
            return BlockingNode(workspace, unassigned, covered=True)
    return BlockingNode(queue.node_id, unassigned, covered=False)


def _own_nominal(rows: TreeRows, node: uuid.UUID, flavor: Flavor) -> dict[Resource, Amount]:
    quotas = rows.quotas.get(node, ())
    return {Resource(quota.resource): quota.own_nominal for quota in quotas if quota.flavor_id == flavor.pk}


def _reach(
    tree: QuotaTree[FlavorResource], node: uuid.UUID, keys: Mapping[FlavorResource, int]
) -> dict[FlavorResource, tuple[Amount, Amount]]:
    """Compute what a node can use now and could use at most."""
    return {key: (tree.available(str(node), key), tree.potential(str(node), key)) for key in keys}


def _rose(before: tuple[Amount, Amount], after: tuple[Amount, Amount], by: int) -> bool:
    return all(
        new is None or (old is not None and new - old >= by) for old, new in zip(before, after, strict=True)
    )
