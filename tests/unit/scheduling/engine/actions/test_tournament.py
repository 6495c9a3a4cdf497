"""The orders across queues, fair and classical: the same however much was computed before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.tree import Branch, NodeLimits, QuotaTree
from scheduling.engine import EngineConfig, FairSharing, cycle_order
from scheduling.engine.actions.admission.classical_iterator import ClassicalIterator
from scheduling.engine.actions.admission.fair_sharing_iterator import FairSharingIterator
from scheduling.engine.actions.head_estimate import HeadEstimate, compute_borrow_level
from scheduling.engine.model import FlavorResource
from tests.unit.scheduling.engine.builders import job

CARDS = FlavorResource("a100", "gpu.cards")
CLASSICAL = cycle_order(EngineConfig())
CHAIN = cycle_order(EngineConfig(fair_sharing=FairSharing()))
PARENTS = {"east": "root", "west": "root", "a": "east", "b": "east", "c": "west", "d": "west", "e": "root"}


def tree(nominal: Mapping[str, int], weights: Mapping[str, int] | None = None) -> QuotaTree[FlavorResource]:
    names = ("root", *PARENTS)
    return QuotaTree(
        (
            Branch(
                name,
                PARENTS.get(name),
                {CARDS: NodeLimits(nominal.get(name, 0))},
                (weights or {}).get(name, 1000),
            )
            for name in names
        ),
        resource_of=lambda key: key.resource,
    )


def contender(name: str, amount: int = 1, **facts: int) -> HeadEstimate:
    return HeadEstimate(job=job(name, name, **facts), leaf=name, queue=name, usage={CARDS: amount})


def winners(quota: QuotaTree[FlavorResource], *contenders: HeadEstimate) -> list[str]:
    tournament = FairSharingIterator(quota, CHAIN, contenders)
    found = []
    while tournament:
        found.append(tournament.pop_next().leaf)
    return found


def test_the_smaller_share_goes_first_at_every_level() -> None:
    quota = tree({"root": 100})
    quota.add_usage("a", CARDS, 30)
    quota.add_usage("c", CARDS, 20)
    quota.add_usage("d", CARDS, 5)
    # West borrows 25 and east 30; inside west, d has the smaller share.
    assert winners(quota, contender("a"), contender("c"), contender("d")) == ["d", "c", "a"]


def test_a_job_that_does_not_borrow_goes_before_a_smaller_share() -> None:
    quota = tree({"root": 50, "a": 10})
    assert winners(quota, contender("b", 1, priority=9), contender("a", 10)) == ["a", "b"]


@pytest.mark.parametrize(("weight", "first"), [(1000, "b"), (4000, "a"), (0, "b")])
def test_weights_count(weight: int, first: str) -> None:
    quota = tree({"root": 100}, {"a": weight})
    quota.add_usage("a", CARDS, 20)
    quota.add_usage("b", CARDS, 10)
    assert winners(quota, contender("a"), contender("b"))[0] == first


def test_equal_shares_fall_back_to_priority_then_time_then_id() -> None:
    quota = tree({"root": 100})
    low, high = contender("a", at=0), contender("b", at=5, priority=1)
    assert winners(quota, low, high) == ["b", "a"]
    assert winners(quota, contender("a", at=5), contender("b", at=0)) == ["b", "a"]
    assert winners(quota, contender("b"), contender("a")) == ["a", "b"]


def test_it_changes_nothing() -> None:
    quota = tree({"root": 100})
    quota.add_usage("a", CARDS, 7)
    before = {name: quota.usages(name) for name in ("root", *PARENTS)}
    winners(quota, *(contender(name) for name in "abcde"))
    assert {name: quota.usages(name) for name in ("root", *PARENTS)} == before


def test_an_empty_one_says_so() -> None:
    with pytest.raises(IndexError):
        FairSharingIterator(tree({}), CHAIN, ()).pop_next()


STEPS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 9), st.integers(0, 2)), max_size=12)


@given(STEPS, st.lists(st.integers(0, 20), min_size=5, max_size=5))
@settings(max_examples=80, deadline=None)
def test_what_is_remembered_equals_what_is_worked_out_anew(
    steps: list[tuple[str, int, int]], nominal: list[int]
) -> None:
    quota = tree({"root": 40, **dict(zip("abcde", nominal, strict=True))})
    heads = {name: contender(name, 1 + index) for index, name in enumerate("abcde")}
    tournament = FairSharingIterator(quota, CHAIN, heads.values())
    for leaf, amount, priority in steps:
        expected = FairSharingIterator(quota, CHAIN, heads.values()).pop_next()
        assert tournament.pop_next() == expected
        # The winner is admitted and its queue brings another; usage changes elsewhere too.
        for name, more in ((expected.leaf, 1), (leaf, amount)):
            quota.add_usage(name, CARDS, more)
            tournament.update_leaf(name)
        heads[expected.leaf] = contender(expected.leaf, amount, priority=priority)
        tournament.put_head(heads[expected.leaf])


def test_in_rounds_all_owners_go_first_and_borrowers_alternate() -> None:
    quota = tree({"root": 9, "a": 2, "b": 1})
    rounds = ClassicalIterator(quota, CLASSICAL, [contender(name, priority=ord(name)) for name in "abc"])
    found: list[str] = []
    while len(found) < 7:
        found.append(rounds.pop_next().leaf)
        quota.add_usage(found[-1], CARDS, 1)
        rounds.update_leaf(found[-1])
        rounds.put_head(contender(found[-1], priority=ord(found[-1])))
    assert "".join(found) == "baacbac"


@pytest.mark.parametrize(("east", "first"), [(0, "ca"), (4, "ac")])
def test_in_rounds_a_job_inside_its_own_part_goes_first(east: int, first: str) -> None:
    quota = tree({"root": 9, "east": east})
    found = ClassicalIterator(quota, CLASSICAL, [contender("a"), contender("c", priority=1)])
    assert found.pop_next().leaf + found.pop_next().leaf == first


@given(STEPS, st.lists(st.integers(0, 20), min_size=7, max_size=7))
@settings(max_examples=80, deadline=None)
def test_rounds_remember_nothing_that_is_not_so_any_more(
    steps: list[tuple[str, int, int]], nominal: list[int]
) -> None:
    quota = tree({"root": 40, **dict(zip((*"abcde", "east", "west"), nominal, strict=True))})
    heads = {name: contender(name, 1 + index) for index, name in enumerate("abcde")}
    rounds, turns = ClassicalIterator(quota, CLASSICAL, heads.values()), Counter[tuple[int, str]]()
    for leaf, amount, priority in steps:
        levels = {name: compute_borrow_level(quota, name, head.usage) for name, head in heads.items()}
        ranked = sorted(
            heads, key=lambda name: (levels[name], turns[levels[name], name], -heads[name].job.priority, name)
        )
        expected = rounds.pop_next()
        assert expected.leaf == ranked[0]
        turns[levels[expected.leaf], expected.leaf] += 1
        for name, more in ((expected.leaf, 1), (leaf, amount)):
            quota.add_usage(name, CARDS, more)
            rounds.update_leaf(name)
        heads[expected.leaf] = contender(expected.leaf, amount, priority=priority)
        rounds.put_head(heads[expected.leaf])
