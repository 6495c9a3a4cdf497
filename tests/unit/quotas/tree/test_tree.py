"""Exact tables of the quota arithmetic, one idea per row."""

from __future__ import annotations

import pytest

from quotas.tree import (
    Branch,
    CycleError,
    NodeLimits,
    NotALeafError,
    OverdrawnError,
    QuotaTree,
    UnknownNodeError,
)

GPU = "gpu"


def tree(*rows: tuple[str, str | None, NodeLimits]) -> QuotaTree[str]:
    return QuotaTree(Branch(node, parent, {GPU: limits}) for node, parent, limits in rows)


def two_teams(**left: int | None) -> QuotaTree[str]:
    return tree(
        ("root", None, NodeLimits(0)), ("a", "root", NodeLimits(10, **left)), ("b", "root", NodeLimits(10))
    )


@pytest.mark.parametrize(
    ("left", "used_a", "used_b", "available_a", "available_b"),
    [
        ({}, 0, 0, 20, 20),
        ({}, 4, 3, 13, 13),
        ({"borrowing_limit": 2}, 0, 0, 12, 20),
        ({"borrowing_limit": 2}, 11, 0, 1, 9),
        ({"borrowing_limit": 2}, 0, 15, 5, 5),
        ({"lending_limit": 3}, 0, 0, 20, 13),
        ({"lending_limit": 3}, 7, 0, 13, 13),
        ({"lending_limit": 3}, 8, 0, 12, 12),
        ({"lending_limit": 0}, 0, 10, 10, 0),
        ({}, 0, 25, -5, -5),
        ({"lending_limit": 4}, 0, 25, -5, -11),
    ],
)
def test_available_follows_limits_and_usage(
    left: dict[str, int], used_a: int, used_b: int, available_a: int, available_b: int
) -> None:
    quotas = two_teams(**left)
    quotas.add_usage("a", GPU, used_a)
    quotas.add_usage("b", GPU, used_b)
    assert (quotas.available("a", GPU), quotas.available("b", GPU)) == (available_a, available_b)


def test_potential_is_what_an_empty_tree_offers() -> None:
    quotas = tree(
        ("root", None, NodeLimits(5)),
        ("dept", "root", NodeLimits(4, borrowing_limit=3)),
        ("team", "dept", NodeLimits(10, lending_limit=6)),
        ("queue", "team", NodeLimits(2)),
        ("other", "root", NodeLimits(20)),
    )
    before = [quotas.potential(node, GPU) for node in ("root", "dept", "team", "queue")]
    quotas.add_usage("queue", GPU, 7)
    assert before == [5 + 10 + 20, 13, 6 + 13, 19]
    assert [quotas.potential(node, GPU) for node in ("root", "dept", "team", "queue")] == before


def test_borrow_level_is_the_height_of_the_lowest_subtree_that_holds_it() -> None:
    quotas = tree(
        ("root", None, NodeLimits(10)),
        ("dept", "root", NodeLimits(4)),
        ("a", "dept", NodeLimits(2)),
        ("b", "dept", NodeLimits(2)),
    )
    levels = [quotas.borrow_level("a", GPU, amount) for amount in (2, 3, 8, 9, 18, 19)]
    assert levels == [0, 1, 1, 2, 2, 2]


def test_a_root_never_borrows_upwards() -> None:
    assert tree(("solo", None, NodeLimits(2))).borrow_level("solo", GPU, 5) == 0


class TestUnlimited:
    def quotas(self) -> QuotaTree[str]:
        return tree(
            ("root", None, NodeLimits(0)), ("free", "root", NodeLimits(None)), ("b", "root", NodeLimits(3))
        )

    def test_it_borrows_nothing_and_lends_nothing(self) -> None:
        quotas = self.quotas()
        quotas.add_usage("free", GPU, 1000)
        assert quotas.available("free", GPU) is None
        assert not quotas.borrows("free", GPU, 10**9)
        assert quotas.available("b", GPU) == 3
        assert quotas.usage("root", GPU) == 0
        assert quotas.borrow_level("free", GPU, 10**9) == 0

    def test_below_an_unlimited_folder_only_borrowing_limits_bind(self) -> None:
        quotas = tree(
            ("root", None, NodeLimits(None)),
            ("a", "root", NodeLimits(2)),
            ("b", "root", NodeLimits(2, borrowing_limit=1)),
        )
        assert quotas.available("a", GPU) is None
        assert quotas.available("b", GPU) == 3
        assert quotas.potential("b", GPU) == 3


def test_no_row_means_nothing() -> None:
    quotas: QuotaTree[str] = QuotaTree([Branch("root", None, {}), Branch("q", "root", {})])
    assert quotas.available("q", GPU) == 0
    assert quotas.borrows("q", GPU, 1)


def test_a_cycle_is_refused() -> None:
    with pytest.raises(CycleError, match="a, b"):
        tree(("root", None, NodeLimits()), ("a", "b", NodeLimits()), ("b", "a", NodeLimits()))


def test_an_unknown_parent_is_refused() -> None:
    with pytest.raises(UnknownNodeError, match="nowhere"):
        tree(("a", "nowhere", NodeLimits()))


def test_usage_is_kept_at_leaves_and_never_negative() -> None:
    quotas = two_teams()
    with pytest.raises(NotALeafError):
        quotas.add_usage("root", GPU, 1)
    with pytest.raises(OverdrawnError):
        quotas.remove_usage("a", GPU, 1)
    with pytest.raises(ValueError, match="-1"):
        quotas.add_usage("a", GPU, -1)
    with pytest.raises(ValueError, match="not negative"):
        NodeLimits(-1)


def test_new_limits_reach_the_root() -> None:
    quotas = two_teams(lending_limit=3)
    quotas.add_usage("a", GPU, 9)
    quotas.set_limits("a", {GPU: NodeLimits(6, lending_limit=6)})
    fresh = tree(
        ("root", None, NodeLimits(0)),
        ("a", "root", NodeLimits(6, lending_limit=6)),
        ("b", "root", NodeLimits(10)),
    )
    fresh.add_usage("a", GPU, 9)
    for node in ("root", "a", "b"):
        assert quotas.available(node, GPU) == fresh.available(node, GPU)
        assert quotas.usage(node, GPU) == fresh.usage(node, GPU)
