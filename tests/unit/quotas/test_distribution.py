"""Distributing what a node has: a table of cases, and invariants for any request."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.distribution.division import compute_nominals, divide_nominal
from quotas.tree.limits import Amount

ROOT, LEFT, RIGHT, A, B, C = (uuid.UUID(int=n) for n in range(1, 7))
PARENTS = {ROOT: None, LEFT: ROOT, RIGHT: ROOT, A: LEFT, B: LEFT, C: RIGHT}
NAMES = {ROOT: "root", LEFT: "left", RIGHT: "right", A: "a", B: "b", C: "c"}
IDS = {name: node for node, name in NAMES.items()}

# What each keeps before; what is set; what each keeps after, or the node that has too little.
CASES = {
    "a child takes from what its parent keeps": ({"left": 8}, {"a": 3}, {"left": 5, "a": 3}),
    "what a child loses returns": ({"left": 5, "a": 3}, {"a": 1}, {"left": 7, "a": 1}),
    "no more than the parent has": ({"left": 8, "b": 2}, {"a": 9}, "left"),
    "to the last one": ({"left": 8}, {"a": 4, "b": 4}, {"a": 4, "b": 4}),
    "from sibling to sibling": ({"a": 8}, {"a": 3, "b": 5}, {"a": 3, "b": 5}),
    "siblings together too much": ({"left": 8}, {"a": 4, "b": 5}, "left"),
    "a folder below what its teams have": ({"root": 2, "a": 5}, {"left": 4}, "left"),
    "a folder keeps what it is given": ({"root": 9, "a": 5}, {"left": 8}, {"root": 6, "left": 3, "a": 5}),
    "two levels at once": ({"root": 9}, {"left": 9, "a": 9}, {"a": 9}),
    "the root decides for itself": ({"root": 1}, {"root": 50}, {"root": 50}),
    "the root below what is given": ({"a": 5}, {"root": 4}, "root"),
    "nothing from nothing": ({}, {"a": 1}, "left"),
    "zero of nothing": ({}, {"a": 0}, {}),
    "unlimited gives amounts": ({"left": None}, {"a": 7}, {"left": None, "a": 7}),
    "unlimited gives unlimited": ({"left": None}, {"a": None}, {"left": None, "a": None}),
    "no unlimited from an amount": ({"left": 99}, {"a": None}, "left"),
    "unlimited returns to the parent": ({"a": None}, {"a": 4}, {"left": None, "a": 4}),
    "an own amount is given first": ({"left": 3, "a": None}, {"b": 3}, {"a": None, "b": 3}),
    "a parent that is unlimited by a child gives more than it keeps": (
        {"left": 2, "a": None},
        {"b": 3},
        {"a": None, "b": 3},
    ),
    "a parent that is unlimited by a child gives unlimited": (
        {"left": 3, "a": None},
        {"b": None},
        {"left": 3, "a": None, "b": None},
    ),
    "what a child loses returns to an amount": (
        {"a": None, "b": 3},
        {"b": 1},
        {"left": 2, "a": None, "b": 1},
    ),
    "a folder with an unlimited team cannot be limited": ({"root": None, "a": None}, {"left": 9}, "left"),
}


@pytest.mark.parametrize(("own", "wanted", "after"), CASES.values(), ids=CASES)
def test_division(own: dict[str, Amount], wanted: dict[str, Amount], after: dict[str, Amount] | str) -> None:
    found = divide_nominal(PARENTS, of_ids(own), of_ids(wanted))
    if isinstance(after, str):
        assert [NAMES[excess.node] for excess in found.excesses] == [after]
    else:
        assert found.excesses == []
        assert {NAMES[node]: n for node, n in found.own_nominal.items() if n != 0} == after


def test_an_excess_reports_both_sums() -> None:
    (excess,) = divide_nominal(PARENTS, of_ids({"left": 8, "b": 2}), of_ids({"a": 9})).excesses
    assert (excess.has, excess.children) == (10, {A: 9, B: 2})


def test_on_top_is_created_and_nothing_else_is_touched() -> None:
    found = divide_nominal(PARENTS, of_ids({"left": 1, "b": 2}), of_ids({"a": 9}), on_top=True)
    assert found.excesses == []
    assert found.own_nominal == of_ids({"left": 1, "b": 2, "a": 9})


AS_IS = -1
amounts = st.one_of(st.none(), st.integers(0, 20))


@settings(max_examples=60)
@given(
    own=st.tuples(*[amounts] * len(PARENTS)),
    wanted=st.tuples(*[st.one_of(st.just(AS_IS), amounts)] * (len(PARENTS) - 1)),
)
def test_whatever_is_divided_the_whole_stays_and_no_other_changes(
    own: tuple[Amount, ...], wanted: tuple[Amount, ...]
) -> None:
    keeps = dict(zip(PARENTS, own, strict=True))
    wants = {n: amount for n, amount in zip(list(PARENTS)[1:], wanted, strict=True) if amount != AS_IS}
    before = compute_nominals(PARENTS, keeps)
    found = divide_nominal(PARENTS, keeps, wants)
    if found.excesses:
        return
    after = compute_nominals(PARENTS, found.own_nominal)
    assert after == {node: wants.get(node, before[node]) for node in PARENTS}
    assert all(amount is None or amount >= 0 for amount in found.own_nominal.values())


def of_ids(named: dict[str, Amount]) -> dict[uuid.UUID, Amount]:
    return {IDS[name]: amount for name, amount in named.items()}
