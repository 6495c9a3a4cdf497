"""How far up the tree a request reaches, and whether the missing quota could be reclaimed from others."""

from __future__ import annotations

import pytest

from quotas.tree import Branch, NodeLimits, QuotaTree

KEY = "cards"


def tree(used: int = 0) -> QuotaTree[str]:
    found = QuotaTree(
        [
            Branch("root", None, {KEY: NodeLimits(8)}),
            Branch("middle", "root", {KEY: NodeLimits(4)}),
            Branch("leaf", "middle", {KEY: NodeLimits(2, lending_limit=1)}),
            Branch("other", "root", {KEY: NodeLimits(0)}),
            Branch("alone", None, {KEY: NodeLimits(2)}),
        ]
    )
    if used:
        found.add_usage("leaf", KEY, used)
    return found


@pytest.mark.parametrize(
    ("node", "used", "amount", "expected"),
    [
        ("leaf", 0, 2, (0, True)),
        ("leaf", 0, 3, (1, True)),
        ("leaf", 0, 6, (1, True)),
        ("leaf", 0, 7, (2, False)),
        ("leaf", 0, 14, (2, False)),
        ("leaf", 0, 15, (2, False)),
        ("leaf", 2, 1, (1, True)),
        ("leaf", 6, 1, (2, False)),
        # A queue without siblings has no lender and no borrower.
        ("alone", 0, 2, (0, False)),
        ("alone", 0, 3, (0, False)),
    ],
)
def test_reach(node: str, used: int, amount: int, expected: tuple[int, bool]) -> None:
    assert tree(used).reach(node, KEY, amount) == expected
    assert tree(used).borrow_level(node, KEY, amount) == expected[0]
