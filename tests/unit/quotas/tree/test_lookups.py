"""Look-ups of a tree about its nodes, and its errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quotas.tree import (
    Branch,
    CycleError,
    NodeLimits,
    NotALeafError,
    OverdrawnError,
    QuotaTree,
    TreeError,
    UnknownNodeError,
)

GPU, CPU = "gpu", "cpu"


def company() -> QuotaTree[str]:
    """Return a tree: `a` has 4, of which 3 stay there; `dept` 7, of which 4 stay; `unit` 1 + 3; `root` 14."""
    return QuotaTree(
        [
            Branch("root", None, {GPU: NodeLimits(10)}),
            Branch("unit", "root", {GPU: NodeLimits(1)}, 500),
            Branch("dept", "unit", {GPU: NodeLimits(4, lending_limit=3)}),
            Branch("b", "dept", {GPU: NodeLimits(2), CPU: NodeLimits(None)}),
            Branch("a", "dept", {GPU: NodeLimits(4, lending_limit=1)}),
        ]
    )


@pytest.mark.parametrize(
    ("used", "amount", "level", "shared"),
    [
        ({}, 4, 0, True),
        ({}, 5, 1, True),  # 2 of it reach `dept`
        ({}, 10, 1, True),
        ({}, 11, 2, True),  # 8 reach `dept`, which keeps 4 of them from `unit`
        ({}, 12, 3, False),
        ({}, 21, 3, False),
        ({}, 22, 3, False),  # more than all
        ({"b": 6}, 4, 0, True),
        ({"b": 6}, 5, 2, True),  # what `dept` keeps is used: both reach `unit`
        ({"b": 6}, 6, 3, False),
        ({"a": 3}, 1, 0, True),
        ({"a": 3}, 2, 1, True),
        ({"a": 3}, 9, 3, False),
    ],
)
def test_a_request_reaches_the_lowest_subtree_that_holds_it(
    used: dict[str, int], amount: int, level: int, shared: bool
) -> None:
    quotas = company()
    for leaf, taken in used.items():
        quotas.add_usage(leaf, GPU, taken)
    assert quotas.reach("a", GPU, amount) == (level, shared)


def test_a_root_has_no_lender() -> None:
    quotas: QuotaTree[str] = QuotaTree([Branch("alone", None, {GPU: NodeLimits(2)})])
    assert [quotas.reach("alone", GPU, amount) for amount in (1, 3)] == [(0, False), (0, False)]


def test_the_tree_reports_its_shape() -> None:
    quotas = company()
    assert list(quotas.path("a")) == ["a", "dept", "unit", "root"]
    assert [quotas.root(node) for node in quotas.path("a")] == ["root"] * 4
    assert [quotas.parent(node) for node in ("a", "root")] == ["dept", None]
    assert [quotas.children(node) for node in ("dept", "a")] == [("a", "b"), ()]
    assert [quotas.height(node) for node in ("root", "unit", "dept", "a")] == [3, 2, 1, 0]
    assert [quotas.weight_milli(node) for node in ("unit", "a")] == [500, 1000]
    assert "a" in quotas and "nowhere" not in quotas


def test_limits_are_those_that_were_set_and_nothing_elsewhere() -> None:
    quotas = company()
    assert quotas.limits("a", GPU) == NodeLimits(4, lending_limit=1)
    assert quotas.limits("a", CPU) == NodeLimits()
    assert [quotas.subtree_quota(node, GPU) for node in ("a", "dept", "unit", "root")] == [4, 7, 4, 14]


def test_locally_available_is_what_is_kept_and_unused() -> None:
    quotas = company()
    assert [quotas.local_available(node, GPU) for node in ("a", "b", "dept")] == [3, 0, 4]
    assert quotas.local_available("b", CPU) is None
    quotas.add_usage("a", GPU, 2)
    assert quotas.local_available("a", GPU) == 1
    quotas.add_usage("a", GPU, 2)
    assert [quotas.local_available(node, GPU) for node in ("a", "dept")] == [0, 3]


def test_exactly_what_is_owned_is_not_borrowed() -> None:
    quotas = company()
    quotas.add_usages("b", {GPU: 2, CPU: 9})
    assert not quotas.borrows("b", GPU) and quotas.inside("b", (GPU, CPU))
    assert quotas.leaves_above("root", (GPU, CPU)) == []
    quotas.add_usage("b", GPU, 1)
    assert quotas.borrows("b", GPU) and not quotas.inside("b", (CPU, GPU))
    assert quotas.leaves_above("root", (CPU, GPU)) == ["b"]
    assert quotas.leaves_above("b", (GPU,)) == ["b"]
    assert quotas.leaves_above("root", (CPU,)) == []


@pytest.mark.parametrize(
    ("freed", "available"),
    [
        (None, 1 + 3),
        ({}, 1 + 3),
        ({"b": 2}, 1 + 3),  # what a neighbour frees counts where it reaches the root
        ({"root": 2}, 1 + 5),
        ({"a": 1}, 2 + 3),
        ({"a": 99}, 3 + 3),  # no more than is used
        ({"root": 99}, 1 + 7),
    ],
)
def test_what_would_be_available_with_others_gone(freed: dict[str, int] | None, available: int) -> None:
    # `a` keeps 3 and uses 2 of them; 4 of the 7 at the root are used.
    limits = {"a": NodeLimits(4, lending_limit=1), "b": NodeLimits(6)}
    quotas = QuotaTree(
        [Branch("root", None, {}), *(Branch(name, "root", {GPU: own}) for name, own in limits.items())]
    )
    quotas.add_usage("a", GPU, 2)
    quotas.add_usage("b", GPU, 4)
    assert quotas.available("a", GPU, freed) == available


def test_a_copy_goes_its_own_way() -> None:
    quotas = company()
    quotas.add_usage("a", GPU, 5)
    twin = quotas.copy()
    twin.add_usage("b", GPU, 4)
    assert [quotas.usages(node) for node in ("a", "b", "dept")] == [{GPU: 5}, {}, {GPU: 2}]
    assert [twin.usages(node) for node in ("a", "b", "dept")] == [{GPU: 5}, {GPU: 4}, {GPU: 6}]
    twin.set_limits("a", {GPU: NodeLimits(9)})
    assert [twin.subtree_quota(node, GPU) for node in ("a", "dept", "root")] == [9, 15, 14]
    assert twin.usage("dept", GPU) == 9
    assert [quotas.subtree_quota(node, GPU) for node in ("a", "dept", "root")] == [4, 7, 14]
    assert [twin.height(node) for node in ("root", "a")] == [3, 0]
    assert (twin.parent("a"), twin.children("dept")) == ("dept", ("a", "b"))


def loop() -> QuotaTree[str]:
    return QuotaTree([Branch("root", None, {}), Branch("x", "y", {}), Branch("y", "x", {})])


@pytest.mark.parametrize(
    ("act", "kind", "node", "message"),
    [
        (lambda _: QuotaTree([Branch("a", "gone", {})]), UnknownNodeError, "gone", "a has the parent gone"),
        (lambda _: loop(), CycleError, "x", "the parents of x, y form a cycle"),
        (lambda quotas: quotas.usage("gone", GPU), UnknownNodeError, "gone", "quota node gone not found"),
        (lambda quotas: quotas.add_usage("dept", GPU, 1), NotALeafError, "dept", "dept has children"),
        (lambda quotas: quotas.add_usages("dept", {GPU: 1}), NotALeafError, "dept", "dept has children"),
        (lambda quotas: quotas.remove_usage("a", GPU, 3), OverdrawnError, "a", "a uses 2 of gpu, not 3"),
        (lambda quotas: quotas.remove_usages("a", {GPU: 3}), OverdrawnError, "a", "a uses 2 of gpu, not 3"),
        (lambda quotas: quotas.remove_usages("a", {CPU: 1}), OverdrawnError, "a", "a uses 0 of cpu, not 1"),
    ],
)
def test_an_error_names_the_node_and_says_why(
    act: Callable[[QuotaTree[str]], object], kind: type[TreeError], node: str, message: str
) -> None:
    quotas = company()
    quotas.add_usage("a", GPU, 2)
    with pytest.raises(kind, match=message) as caught:
        act(quotas)
    assert caught.value.node_id == node
    assert quotas.usages("a") == {GPU: 2}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda quotas: quotas.add_usage("a", GPU, -1), "usage of -1 can't be added"),
        (lambda quotas: quotas.add_usages("a", {GPU: -1}), "usage of -1 can't be added"),
        (lambda quotas: quotas.remove_usage("a", GPU, -1), "usage of -1 can't be removed"),
        (lambda quotas: quotas.remove_usages("a", {GPU: -1}), "usage of -1 can't be removed"),
        (lambda _: NodeLimits(lending_limit=-2), "lending_limit is -2"),
        (lambda _: NodeLimits(0, -3), "borrowing_limit is -3"),
        (lambda _: NodeLimits(-4), "own_nominal is -4"),
    ],
)
def test_a_negative_amount_is_refused(act: Callable[[QuotaTree[str]], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act(company())


def test_nothing_may_be_added_and_removed() -> None:
    quotas = company()
    quotas.add_usage("a", GPU, 0)
    quotas.add_usages("a", {GPU: 0, CPU: 0})
    quotas.remove_usage("a", GPU, 0)
    quotas.remove_usages("a", {GPU: 0, CPU: 0})
    assert quotas.usages("a") == {}


def test_what_has_no_limits_is_borrowed_from_the_root() -> None:
    quotas = company()
    quotas.add_usage("a", CPU, 3)
    assert [quotas.usage(node, CPU) for node in ("a", "dept", "unit", "root")] == [3, 3, 3, 3]
    assert quotas.local_available("a", CPU) == 0
    quotas.set_limits("b", {GPU: NodeLimits(5)})
    assert [quotas.usage(node, CPU) for node in ("dept", "root")] == [3, 3]
    quotas.remove_usage("a", CPU, 2)
    assert [quotas.usage(node, CPU) for node in ("a", "root")] == [1, 1]
    quotas.remove_usages("a", {CPU: 1})
    assert [quotas.usages(node) for node in ("a", "dept", "root")] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("removed", "usages"),
    [(1, [7, 4, 0, 0]), (2, [6, 3, 0, 0]), (4, [4, 1, 0, 0]), (5, [3, 0, 0, 0]), (8, [0, 0, 0, 0])],
)
def test_giving_back_takes_from_above_what_had_spilled_over(removed: int, usages: list[int]) -> None:
    quotas = company()
    quotas.add_usage("a", GPU, 8)
    assert [quotas.usage(node, GPU) for node in ("a", "dept", "unit", "root")] == [8, 5, 1, 1]
    quotas.remove_usage("a", GPU, removed)
    assert [quotas.usage(node, GPU) for node in ("a", "dept", "unit", "root")] == usages
    quotas.set_limits("b", {GPU: NodeLimits(2)})
    assert [quotas.usage(node, GPU) for node in ("a", "dept", "unit", "root")] == usages


@pytest.mark.parametrize(
    ("limits", "used", "available", "potential"),
    [
        (NodeLimits(4, borrowing_limit=1, lending_limit=1), 0, 3 + 2, 5),
        (NodeLimits(4, borrowing_limit=1, lending_limit=1), 4, 1, 5),
        (NodeLimits(4, borrowing_limit=1, lending_limit=1), 5, 0, 5),
        (NodeLimits(4, borrowing_limit=50), 0, 10, 10),
        (NodeLimits(4, borrowing_limit=50, lending_limit=9), 3, 7, 10),
        (NodeLimits(4, lending_limit=4), 1, 9, 10),
        (NodeLimits(4, lending_limit=5), 1, 9, 10),
    ],
)
def test_what_is_kept_and_what_may_be_borrowed_bound_together(
    limits: NodeLimits, used: int, available: int, potential: int
) -> None:
    quotas = QuotaTree(
        [
            Branch("root", None, {}),
            Branch("a", "root", {GPU: limits}),
            Branch("b", "root", {GPU: NodeLimits(6)}),
        ]
    )
    quotas.add_usage("a", GPU, used)
    assert (quotas.available("a", GPU), quotas.potential("a", GPU)) == (available, potential)
    lent = min(4, 4 if limits.lending_limit is None else limits.lending_limit)
    assert quotas.potential("b", GPU) == 6 + lent


@pytest.mark.parametrize(
    ("used", "amounts", "node", "carried"),
    [
        ({}, {GPU: 9, CPU: 2}, "a", {GPU: 9, CPU: 2}),
        ({}, {GPU: 9, CPU: 2}, "dept", {GPU: 6, CPU: 2}),  # 3 stay at `a`
        ({}, {GPU: 9, CPU: 2}, "unit", {GPU: 2, CPU: 2}),  # 4 at `dept`
        ({}, {GPU: 3}, "dept", {}),
        ({"a": 2}, {GPU: 2}, "dept", {GPU: 1}),
        ({"a": 9}, {GPU: 2}, "unit", {GPU: 2}),
        ({"b": 2}, {GPU: 6}, "unit", {GPU: 1}),
        ({}, {GPU: 9}, "nowhere", {GPU: 2}),  # up to the root
    ],
)
def test_what_a_use_at_a_leaf_comes_to_higher_up(
    used: dict[str, int], amounts: dict[str, int], node: str, carried: dict[str, int]
) -> None:
    quotas = company()
    for leaf, amount in used.items():
        quotas.add_usage(leaf, GPU, amount)
    assert quotas.carried("a", node, amounts) == carried


def test_a_use_without_a_limit_stays_where_it_is() -> None:
    assert company().carried("b", "dept", {CPU: 5, GPU: 1}) == {GPU: 1}


@pytest.mark.parametrize(
    ("mine", "other", "sides"),
    [
        ("a", "b", ("a", "b")),
        ("a", "c", ("left", "right")),
        ("c", "a", ("right", "left")),
        ("a", "d", ("left", "d")),
    ],
)
def test_two_leaves_meet_below_the_lowest_node_above_both(
    mine: str, other: str, sides: tuple[str, str]
) -> None:
    parents = {"all": None, "left": "all", "right": "all", "a": "left", "b": "left", "c": "right", "d": "all"}
    tree: QuotaTree[str] = QuotaTree(Branch(name, above, {}) for name, above in parents.items())
    assert tree.rivals(mine, other) == tree.rivals(mine, other) == sides


def test_leaves_of_different_trees_do_not_meet() -> None:
    tree: QuotaTree[str] = QuotaTree([Branch("a", None, {}), Branch("b", None, {})])
    with pytest.raises(ValueError, match="different trees"):
        tree.rivals("a", "b")


def test_an_overdraft_by_a_booking_is_reported_when_it_is_counted() -> None:
    tree: QuotaTree[str] = QuotaTree([Branch("a", None, {"gpu": NodeLimits(5)})])
    tree.defer_usage("a", {"gpu": 2}, 2)
    tree.defer_usage("a", {"gpu": 3}, -2)
    with pytest.raises(OverdrawnError, match="a uses 0 of gpu, not 2"):
        tree.usage("a", "gpu")
    assert tree.usage("a", "gpu") == 0


def test_a_node_is_stirred_by_all_usage_below_it_and_by_nothing_else() -> None:
    quotas, nodes = company(), ("root", "unit", "dept", "a", "b")

    def stirred_by(change: Callable[[], None]) -> set[str]:
        before = {node: quotas.subtree_changes(node) for node in nodes}
        change()
        return {node for node in nodes if quotas.subtree_changes(node) != before[node]}

    above = {"root", "unit", "dept"}
    # Both stay at `a`: no node above uses more.
    assert stirred_by(lambda: quotas.add_usage("a", GPU, 2)) == {*above, "a"}
    assert quotas.usage("dept", GPU) == 0
    assert stirred_by(lambda: quotas.remove_usages("a", {GPU: 1})) == {*above, "a"}
    assert stirred_by(lambda: quotas.add_usages("b", {GPU: 1})) == {*above, "b"}
    assert stirred_by(lambda: quotas.remove_usage("b", GPU, 1)) == {*above, "b"}
    assert stirred_by(lambda: None) == set()


@pytest.mark.parametrize("node", ["a", "b", "dept", "unit", "root"])
@pytest.mark.parametrize("extra", [{}, {GPU: 1}, {GPU: 7, CPU: 9}, {CPU: 9}])
def test_some_key_is_borrowed_where_one_of_them_is(node: str, extra: dict[str, int]) -> None:
    quotas = company()
    quotas.add_usages("a", {GPU: 4})
    quotas.add_usages("b", {GPU: 2, CPU: 1})
    alone = [quotas.borrows(node, key, extra.get(key, 0)) for key in (GPU, CPU)]
    assert quotas.borrows_any(node, (GPU, CPU), extra) is any(alone)
    assert quotas.borrows_any(node, (), extra) is False
