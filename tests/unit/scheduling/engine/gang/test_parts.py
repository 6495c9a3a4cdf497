"""Sizes of gangs: minimum, growth and surplus."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine.gang import GangRules, PartsError
from scheduling.engine.model import Job, Role
from tests.unit.scheduling.engine.builders import job, role
from tests.unit.scheduling.engine.gang.worlds import part


def member(name: str, sub_gang: str, tasks: int = 1, least: int | None = 0) -> Role:
    return replace(role(tasks, 1, name=name, least=least), sub_gang=sub_gang)


PLAIN = job("plain", "a", role(1, 1, name="master"), role(8, 1, least=2))
BOUND = replace(PLAIN, min_available=5)
# Two groups of two; one part of the first is enough, the second needs both.
TREE = job(
    "tree",
    "a",
    member("a", "sub-a", 4),
    member("b", "sub-b", 2),
    member("c", "sub-c", 3),
    member("d", "sub-d", 2),
    sub_gangs=(
        part("ab", min_parts=1),
        part("cd"),
        part("sub-a", "ab", min_available=1),
        part("sub-b", "ab", min_available=2),
        part("sub-c", "cd", min_available=1),
        part("sub-d", "cd", min_available=1),
    ),
)
ANY_OF_TWO = job(
    "any",
    "a",
    member("x", "left", 2),
    member("y", "right", 2),
    sub_gangs=(
        part("top", min_parts=1),
        part("left", "top", min_available=2),
        part("right", "top", min_available=2),
    ),
)


@pytest.mark.parametrize(
    ("entry", "standing", "expected"),
    [
        (PLAIN, {}, {"master": 1, "worker": 2}),
        (PLAIN, {"master": 1, "worker": 1}, {"worker": 1}),
        (PLAIN, {"master": 1, "worker": 2}, {}),
        (BOUND, {}, {"master": 1, "worker": 4}),
        (BOUND, {"master": 1, "worker": 4}, {}),
        (TREE, {}, {"a": 1, "c": 1, "d": 1}),
        (TREE, {"b": 2}, {"c": 1, "d": 1}),
        (TREE, {"b": 1}, {"b": 1, "c": 1, "d": 1}),
        (ANY_OF_TWO, {}, {"x": 2}),
        (ANY_OF_TWO, {"y": 1}, {"y": 1}),
    ],
)
def test_what_is_missing_to_the_smallest_gang(
    entry: Job, standing: dict[str, int], expected: dict[str, int]
) -> None:
    found = GangRules(entry).missing_minimum(standing)
    assert {name: number for name, number in found.items() if number} == expected


def test_a_part_that_may_not_grow_so_far_is_not_chosen() -> None:
    assert GangRules(ANY_OF_TWO).missing_minimum({}, {"x": 1, "y": 2}) == {"y": 2}


def growth(entry: Job, standing: dict[str, int]) -> list[dict[str, int]]:
    gang, counts, steps = GangRules(entry), dict(standing), []
    while (step := gang.next_step(counts)) is not None:
        steps.append(step)
        for name, number in step.items():
            counts[name] = counts.get(name, 0) + number
    return steps


def test_it_grows_where_the_ratio_is_lowest_and_starts_parts_whole() -> None:
    steps = growth(TREE, {"a": 1, "c": 1, "d": 1})
    # `cd` has both of the two parts it needs, `ab` one of one: a tie that the job's order breaks; then
    # `ab` runs twice what it needs and `cd` grows to its end.
    assert steps == [{"b": 2}, {"c": 1}, {"d": 1}, {"c": 1}, {"a": 1}, {"a": 1}, {"a": 1}]


def test_roles_grow_in_step() -> None:
    two = job("two", "a", role(4, 1, name="x", least=0), role(2, 1, name="y", least=0))
    assert [next(iter(step)) for step in growth(two, {})] == ["x", "y", "x", "x", "y", "x"]


def test_barred_roles_do_not_grow() -> None:
    gang = GangRules(job("two", "a", role(4, 1, name="x", least=0), role(2, 1, name="y", least=0)))
    assert gang.next_step({}, None, frozenset({"x"})) == {"y": 1}
    assert gang.next_step({}, None, frozenset({"x", "y"})) is None


@pytest.mark.parametrize(
    ("entry", "standing", "order"),
    [
        (PLAIN, {"master": 1, "worker": 4}, ["worker", "worker"]),
        (BOUND, {"master": 1, "worker": 5}, ["worker"]),
        (TREE, {"a": 2, "b": 2, "c": 2, "d": 1}, ["a", "b", "b", "c"]),
        (TREE, {"a": 1, "c": 1, "d": 1}, []),
        (TREE, {"a": 3}, []),
    ],
)
def test_surplus_is_placed_where_the_ratio_is_highest(
    entry: Job, standing: dict[str, int], order: list[str]
) -> None:
    gang, counts, found = GangRules(entry), dict(standing), []
    while (name := gang.next_surplus_role(counts)) is not None:
        found.append(name)
        counts[name] -= 1
        assert gang.is_satisfied(counts)
    assert found == order


@pytest.mark.parametrize(
    "broken",
    [
        job("j", sub_gangs=(part("a", "nobody"),)),
        job("j", sub_gangs=(part("a", "b"), part("b", "a"))),
        job("j", "a", member("x", "nobody")),
    ],
)
def test_parts_that_form_no_tree_are_refused(broken: Job) -> None:
    with pytest.raises(PartsError):
        GangRules(broken)
