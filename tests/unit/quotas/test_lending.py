"""The amounts that nodes borrow and lend, against the quota tree of all nodes."""

from __future__ import annotations

import random
import uuid

import pytest

from quotas.distribution.lending import compute_borrowed, compute_lent
from quotas.distribution.node_order import NodeOrder
from quotas.distribution.subtree_sums import sum_subtrees
from quotas.tree import Branch, NodeLimits, QuotaTree
from tests.unit.quotas.test_room import draw_limits


@pytest.mark.parametrize("seed", range(100))
def test_what_nodes_borrow_is_what_the_tree_borrows(seed: int) -> None:
    draw = random.Random(seed)
    ids = [uuid.UUID(int=draw.getrandbits(128)) for _ in range(draw.randint(2, 40))]
    parents = {pk: ids[draw.randrange(at)] if at else None for at, pk in enumerate(ids)}
    limits = {pk: draw_limits(draw) for pk in ids}
    tree = QuotaTree(
        Branch(str(pk), str(above) if above else None, {"": limits[pk] or NodeLimits()})
        for pk, above in parents.items()
    )
    order = NodeOrder(parents)
    charged = [0 if below else draw.choice([0, draw.randint(1, 1200)]) for below in order.children]
    for pk, amount in zip(order.nodes, charged, strict=True):
        if amount:
            tree.add_usage(str(pk), "", amount)

    sums = sum_subtrees(order, [limits[pk] for pk in order.nodes], charged)

    borrowed = compute_borrowed(sums)
    for pk, amount in zip(order.nodes, borrowed, strict=True):
        quota, usage = tree.subtree_quota(str(pk), ""), tree.usage(str(pk), "")
        assert amount == (0 if quota is None else max(0, usage - quota))


def test_a_workspace_borrows_for_one_queue_beside_another_of_unlimited_quota() -> None:
    root, lender, borrower, limited, unlimited = (uuid.UUID(int=number) for number in range(1, 6))
    parents = {root: None, lender: root, borrower: root, limited: borrower, unlimited: borrower}
    order = NodeOrder(parents)
    own = {lender: NodeLimits(10), limited: NodeLimits(4), unlimited: NodeLimits(None)}
    limits = [own.get(pk) for pk in order.nodes]
    charged = {limited: 7, unlimited: 50}
    sums = sum_subtrees(order, limits, [charged.get(pk, 0) for pk in order.nodes])

    borrowed = dict(zip(order.nodes, compute_borrowed(sums), strict=True))
    lent = dict(zip(order.nodes, compute_lent(order, limits, sums), strict=True))

    assert borrowed == {root: 0, lender: 0, borrower: 3, limited: 3, unlimited: 0}
    assert lent == {root: 0, lender: 3, borrower: 0, limited: 0, unlimited: 0}


def test_quota_that_a_child_keeps_is_not_lent_beside_it() -> None:
    root, lender, borrower, kept, short = (uuid.UUID(int=number) for number in range(1, 6))
    parents = {root: None, lender: root, borrower: root, kept: borrower, short: borrower}
    order = NodeOrder(parents)
    own = {lender: NodeLimits(10), kept: NodeLimits(6, lending_limit=2)}
    limits = [own.get(pk) for pk in order.nodes]
    charged = {kept: 1, short: 5}
    sums = sum_subtrees(order, limits, [charged.get(pk, 0) for pk in order.nodes])

    borrowed = dict(zip(order.nodes, compute_borrowed(sums), strict=True))
    lent = dict(zip(order.nodes, compute_lent(order, limits, sums), strict=True))

    # The node reserves 6 of its 6, and three of these are not its own: its child keeps three unused.
    assert borrowed == {root: 0, lender: 0, borrower: 3, kept: 0, short: 5}
    assert lent == {root: 0, lender: 3, borrower: 0, kept: 2, short: 0}
