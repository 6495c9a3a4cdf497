"""The admitted jobs of a workspace never exceed the limits that were decided about it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.selectors.limits.workspace_limits import StoredQuota, bound_workspaces
from quotas.tree import Branch, NodeLimits, QuotaTree

A100 = uuid.UUID(int=1)
CARDS = "gpu.cards"
KEY = (str(A100), CARDS)
ROOT, WORKSPACE, OTHER = (uuid.UUID(int=number) for number in (10, 11, 12))


@dataclass
class Node:
    """A queue of the workspace unless it says otherwise."""

    pk: uuid.UUID
    parent_id: uuid.UUID | None = WORKSPACE
    is_queue: bool = True
    limits_decided: bool = True


@dataclass
class OneQueue:
    """A queue with the first one's limit, or with what came later."""

    nominal: int
    limit: int | None
    stands: bool


queues = st.lists(
    st.one_of(
        st.builds(OneQueue, st.integers(0, 9), st.integers(0, 9), st.booleans()),
        st.builds(OneQueue, st.integers(0, 9), st.none(), st.just(False)),
    ),
    max_size=6,
)


@settings(max_examples=120)
@given(
    st.builds(OneQueue, st.integers(0, 9), st.integers(0, 9), st.booleans()),
    queues,
    st.one_of(st.none(), st.integers(0, 12)),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 12)), max_size=30),
)
def test_no_number_of_queues_borrows_more_than_the_workspace_was_allowed(
    first: OneQueue, more: list[OneQueue], own_limit: int | None, asked: list[tuple[int, int]]
) -> None:
    opened = [first, *more]
    nodes = [Node(ROOT, None, False), Node(WORKSPACE, ROOT, False), Node(OTHER, ROOT, False)]
    rows = {OTHER: [StoredQuota(OTHER, A100, CARDS, 50, None, None)]}
    if own_limit is not None:
        rows[WORKSPACE] = [StoredQuota(WORKSPACE, A100, CARDS, 1, own_limit, None)]
    for number, queue in enumerate(opened):
        node = Node(uuid.UUID(int=100 + number), limits_decided=queue.stands)
        nodes.append(node)
        rows[node.pk] = [StoredQuota(node.pk, A100, CARDS, queue.nominal, queue.limit, None)]
    nominal = sum(queue.nominal for queue in opened) + (own_limit is not None)
    allowed = sum(queue.limit or 0 for queue in opened)
    most = nominal + (allowed if own_limit is None else min(allowed, own_limit))

    seen = bounded(nodes, rows)
    tree = QuotaTree(
        Branch(
            id=str(node.pk),
            parent=str(node.parent_id) if node.parent_id else None,
            limits=dict.fromkeys([KEY], NodeLimits(*seen[node.pk][0][3:])) if seen.get(node.pk) else {},
        )
        for node in nodes
    )
    used = 0
    for number, amount in asked:
        leaf = str(uuid.UUID(int=100 + number % len(opened)))
        if (tree.available(leaf, KEY) or 0) >= amount:
            tree.add_usage(leaf, KEY, amount)
            used += amount
    assert used <= most


def bounded(
    nodes: list[Node], rows: dict[uuid.UUID, list[StoredQuota]]
) -> dict[uuid.UUID, list[StoredQuota]]:
    found = bound_workspaces(nodes, rows, lambda of: {pk: {A100} for pk in of})
    return {**rows, **found}
