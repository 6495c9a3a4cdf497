"""Invariants that hold for every tree, whatever its limits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.tree import Branch, DominantResourceShare, NodeLimits, QuotaTree, is_at_least

KEY = "gpu"
amounts = st.integers(0, 20)
optional = st.none() | amounts
limits = st.builds(NodeLimits, optional | amounts, optional, optional)
Usage = list[tuple[int, int]]


@st.composite
def trees(draw: st.DrawFn) -> tuple[QuotaTree[str], list[str], list[str]]:
    count = draw(st.integers(1, 8))
    parents = [None] + [draw(st.integers(0, index - 1)) for index in range(1, count)]
    branches = [
        Branch(f"n{index}", None if parent is None else f"n{parent}", {KEY: draw(limits)})
        for index, parent in enumerate(parents)
    ]
    ids = [branch.id for branch in branches]
    leaves = [node for node in ids if node not in {branch.parent for branch in branches}]
    return QuotaTree(branches), ids, leaves


def state(quotas: QuotaTree[str], ids: list[str]) -> list[tuple[int, int | None]]:
    return [(quotas.usage(node, KEY), quotas.available(node, KEY)) for node in ids]


steps = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30)), max_size=8)


@given(trees(), steps, steps)
@settings(max_examples=150, deadline=None)
def test_removing_in_any_order_undoes_adding(
    built: tuple[QuotaTree[str], list[str], list[str]], first: Usage, second: Usage
) -> None:
    quotas, ids, leaves = built
    for pick, amount in first:
        quotas.add_usage(leaves[pick % len(leaves)], KEY, amount)
    before = state(quotas, ids)
    for pick, amount in second:
        quotas.add_usage(leaves[pick % len(leaves)], KEY, amount)
    for pick, amount in second:
        quotas.remove_usage(leaves[pick % len(leaves)], KEY, amount)
    assert state(quotas, ids) == before


@given(trees(), steps)
@settings(max_examples=150, deadline=None)
def test_admission_within_available_keeps_every_subtree_within_its_quota(
    built: tuple[QuotaTree[str], list[str], list[str]], wanted: Usage
) -> None:
    quotas, ids, leaves = built
    for pick, amount in wanted:
        leaf = leaves[pick % len(leaves)]
        if is_at_least(quotas.available(leaf, KEY), amount):
            quotas.add_usage(leaf, KEY, amount)
    for node in ids:
        own = quotas.limits(node, KEY)
        quota = quotas.subtree_quota(node, KEY)
        is_root = list(quotas.path(node)) == [node]
        if quota is not None and is_root:
            assert quotas.usage(node, KEY) <= quota
        if quota is not None and own.borrowing_limit is not None and not is_root:
            assert quotas.usage(node, KEY) <= quota + own.borrowing_limit


@given(trees(), steps, st.integers(0, 7), amounts)
@settings(max_examples=150, deadline=None)
def test_more_usage_never_leaves_more_available(
    built: tuple[QuotaTree[str], list[str], list[str]], held: Usage, pick: int, amount: int
) -> None:
    quotas, ids, leaves = built
    for index, used in held:
        quotas.add_usage(leaves[index % len(leaves)], KEY, used)
    before = {node: quotas.available(node, KEY) for node in ids}
    quotas.add_usage(leaves[pick % len(leaves)], KEY, amount)
    for node in ids:
        after = quotas.available(node, KEY)
        assert (before[node] is None) == (after is None)
        if before[node] is not None and after is not None:
            assert after <= before[node]  # type: ignore[operator]


@given(trees(), st.integers(0, 7))
@settings(max_examples=100, deadline=None)
def test_an_empty_tree_offers_at_least_nothing_and_at_most_the_potential(
    built: tuple[QuotaTree[str], list[str], list[str]], pick: int
) -> None:
    quotas, _, leaves = built
    leaf = leaves[pick % len(leaves)]
    available, potential = quotas.available(leaf, KEY), quotas.potential(leaf, KEY)
    assert available == potential


@given(trees(), steps, st.integers(0, 7), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_borrow_level_is_zero_exactly_inside_the_own_quota(
    built: tuple[QuotaTree[str], list[str], list[str]], held: Usage, pick: int, amount: int
) -> None:
    quotas, _, leaves = built
    for index, used in held:
        quotas.add_usage(leaves[index % len(leaves)], KEY, used)
    leaf = leaves[pick % len(leaves)]
    alone = list(quotas.path(leaf)) == [leaf]
    level = quotas.borrow_level(leaf, KEY, amount)
    assert (level == 0) == (alone or not quotas.borrows(leaf, KEY, amount))
    room = quotas.own_room(leaf, KEY)
    assert (level == 0) == (room is None or amount <= room)
    available = quotas.available(leaf, KEY)
    fits = available is None or amount <= available
    assert quotas.has_own_room(leaf, {KEY: amount}) == (level == 0 and fits)


@given(trees(), steps, st.integers(0, 7), limits)
@settings(max_examples=100, deadline=None)
def test_an_answer_is_the_same_however_often_it_was_asked_for(
    built: tuple[QuotaTree[str], list[str], list[str]], held: Usage, pick: int, changed: NodeLimits
) -> None:
    quotas, ids, leaves = built

    def shares() -> list[DominantResourceShare]:
        return [quotas.share(node) for node in ids]

    def anew() -> list[DominantResourceShare]:
        for node in ids:
            assert quotas.inside(node, (KEY,)) is not quotas.borrows(node, KEY)
        return [copied.share(node) for copied in (quotas.copy(),) for node in ids]

    shares()
    for index, amount in held:
        quotas.add_usage(leaves[index % len(leaves)], KEY, amount)
        assert shares() == anew()
    quotas.set_limits(ids[pick % len(ids)], {KEY: changed})
    assert shares() == [quotas.share(node, {KEY: 0}) for node in ids] == anew()
    for index, amount in held:
        quotas.remove_usage(leaves[index % len(leaves)], KEY, amount)
        assert shares() == anew()


@given(trees(), steps, st.integers(0, 7), st.integers(0, 30))
@settings(max_examples=150, deadline=None)
def test_what_is_carried_up_is_what_using_it_adds(
    built: tuple[QuotaTree[str], list[str], list[str]], held: Usage, pick: int, amount: int
) -> None:
    quotas, _, leaves = built
    for index, used in held:
        quotas.add_usage(leaves[index % len(leaves)], KEY, used)
    leaf = leaves[pick % len(leaves)]
    path = list(quotas.path(leaf))
    told = {node: quotas.carried(leaf, node, {KEY: amount}).get(KEY, 0) for node in path}
    before = {node: quotas.usage(node, KEY) for node in path}
    quotas.add_usage(leaf, KEY, amount)
    assert told == {node: quotas.usage(node, KEY) - before[node] for node in path}


of_two = st.dictionaries(st.sampled_from(("a", "b", "c")), st.integers(0, 30))


@given(of_two, of_two, of_two, st.sampled_from((None, 0, 7)))
@settings(max_examples=200, deadline=None)
def test_a_share_with_more_is_the_share_once_it_is_used_and_with_less_once_it_is_gone(
    held: dict[str, int], more: dict[str, int], beside: dict[str, int], nominal: int | None
) -> None:
    own = {"a": NodeLimits(nominal), "b": NodeLimits(5)}
    branches = [
        Branch("root", None, {"a": NodeLimits(9)}),
        Branch("leaf", "root", own),
        Branch("z", "root", own),
    ]
    # Two keys are amounts of one resource, and the third is no part of any share.
    quotas = QuotaTree(branches, {"a": "gpu", "b": "gpu", "c": None}.get)
    quotas.add_usages("leaf", held)
    quotas.add_usages("z", beside)
    before, told = quotas.share("leaf"), quotas.share("leaf", more)
    quotas.add_usages("leaf", more)
    after, back = quotas.share("leaf"), quotas.share("leaf", {key: -amount for key, amount in more.items()})
    assert (told, told.borrows, told.resource) == (after, after.borrows, after.resource)
    assert (back, back.borrows, back.resource) == (before, before.borrows, before.resource)


booked = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(-3, 3), st.booleans()))


@given(trees(), booked)
@settings(max_examples=150, deadline=None)
def test_what_is_booked_counts_as_if_it_were_used_at_once(
    built: tuple[QuotaTree[str], list[str], list[str]], bookings: list[tuple[int, int, int, bool]]
) -> None:
    quotas, ids, leaves = built
    alike = [{KEY: 4}, {KEY: 4}, {KEY: 7}]
    plain = quotas.copy()
    for leaf in leaves:
        for tree in (quotas, plain):
            tree.add_usage(leaf, KEY, 21 * len(bookings))
    for pick, which, count, looks in bookings:
        leaf = leaves[pick % len(leaves)]
        quotas.defer_usage(leaf, alike[which], count)
        for _ in range(abs(count)):
            (plain.add_usages if count > 0 else plain.remove_usages)(leaf, alike[which])
        if looks:
            assert state(quotas, ids) == state(plain, ids)
    assert state(quotas.copy(), ids) == state(plain, ids)
