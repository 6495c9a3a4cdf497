"""The free quota of a few nodes from a reduced tree, against the quota tree of all nodes."""

from __future__ import annotations

import random
import uuid

import pytest

from quotas.distribution.node_order import NodeOrder
from quotas.distribution.room import QuotaRoom, compute_rooms
from quotas.distribution.subtree_sums import sum_subtrees
from quotas.tree import Branch, NodeLimits, QuotaTree


def draw_limits(draw: random.Random) -> NodeLimits | None:
    if draw.random() < 0.2:
        return None
    return NodeLimits(
        draw.choice([None, 0, *(draw.randint(1, 900) for _ in range(6))]),
        draw.choice([None, None, 0, draw.randint(0, 500)]),
        draw.choice([None, None, 0, draw.randint(0, 500)]),
    )


@pytest.mark.parametrize("seed", range(200))
def test_a_reduced_tree_answers_the_same_as_the_whole(seed: int) -> None:
    draw = random.Random(seed)
    ids = [uuid.UUID(int=draw.getrandbits(128)) for _ in range(draw.randint(1, 40))]
    parents = {pk: ids[draw.randrange(at)] if at else None for at, pk in enumerate(ids)}
    limits = {pk: draw_limits(draw) for pk in ids}
    leaves = set(ids) - set(parents.values())
    charged = {pk: draw.choice([0, draw.randint(1, 1200)]) for pk in leaves}
    whole = QuotaTree(
        Branch(str(pk), str(above) if above else None, {"": limits[pk] or NodeLimits()})
        for pk, above in parents.items()
    )
    for pk, amount in charged.items():
        whole.add_usage(str(pk), "", amount)

    order = NodeOrder(parents)
    wanted = {order.positions[pk]: pk for pk in draw.sample(ids, draw.randint(1, len(ids)))}
    stored, used = [limits[pk] for pk in order.nodes], [charged.get(pk, 0) for pk in order.nodes]
    found = compute_rooms(order, stored, used, sum_subtrees(order, stored, used), wanted)

    assert found == {
        at: QuotaRoom(whole.available(str(pk), ""), whole.potential(str(pk), "")) for at, pk in wanted.items()
    }
