"""The jobs that a policy lets a job preempt by priority and age, and the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    Charge,
    FlavorResource,
    Instant,
    PreemptOthers,
    PreemptWithin,
    Request,
    Role,
    SubGang,
)
from scheduling.engine.preemption.candidates.eviction_cost import (
    count_cards,
    find_surplus,
    running_seconds,
    unsaved_seconds,
)
from scheduling.engine.preemption.candidates.policy import (
    PreemptPolicy,
    allows_any_victim,
    max_victim_priority,
    may_preempt,
)
from scheduling.engine.state.charges import sum_task_charges
from tests.unit.scheduling.engine.preemption.worlds import CARDS, NOW, held, running

CORES = FlavorResource("h100", Resource.GPU_CORES)
MEMORY = FlavorResource("h100", Resource.MEMORY)
NEVER, LOWER = PreemptWithin.NEVER, PreemptWithin.LOWER_PRIORITY
NEWER = PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY


@pytest.mark.parametrize(
    ("policy", "priority", "submitted", "allowed"),
    [
        (NEVER, 4, 60, False),
        (PreemptOthers.NEVER, 4, 60, False),
        (LOWER, 4, 40, True),
        (LOWER, 5, 60, False),
        (PreemptOthers.LOWER_PRIORITY, 4, 40, True),
        (PreemptOthers.LOWER_PRIORITY, 5, 60, False),
        (NEWER, 4, 40, True),
        (NEWER, 5, 60, True),
        (NEWER, 5, 50, False),
        (NEWER, 5, 40, False),
        (NEWER, 6, 60, False),
        (PreemptOthers.ANY, 9, 40, True),
    ],
)
def test_a_policy_compares_priority_and_age(
    policy: PreemptPolicy, priority: int, submitted: int, allowed: bool
) -> None:
    mine = running("mine", "a", 1, priority=5, submitted_at=Instant(50))
    theirs = running("theirs", "a", 1, priority=priority, submitted_at=Instant(submitted))
    assert may_preempt(mine, theirs, policy) is allowed
    assert not allowed or priority <= max_victim_priority(mine, policy)


@pytest.mark.parametrize(
    ("policy", "highest", "anyone"),
    [
        (NEVER, float("-inf"), False),
        (LOWER, 4, True),
        (NEWER, 5, True),
        (PreemptOthers.ANY, float("inf"), True),
    ],
)
def test_a_policy_ends_at_a_priority(policy: PreemptPolicy, highest: float, anyone: bool) -> None:
    assert max_victim_priority(running("mine", "a", 1, priority=5), policy) == highest
    assert allows_any_victim(policy) is anyone


@pytest.mark.parametrize(
    ("charges", "cards"),
    [
        ({}, 0.0),
        ({CARDS: 2}, 2.0),
        ({CARDS: 2, MEMORY: 9}, 2.0),
        ({CORES: 250, CARDS: 1}, 2.5),
        ({CARDS: 2, FlavorResource("a100", Resource.GPU_CARDS): 3}, 5.0),
        ({CORES: 30, FlavorResource("a100", Resource.GPU_CORES): 40}, 0.7),
        ({CORES: 0, CARDS: 3}, 3.0),
    ],
)
def test_cores_count_as_cards_and_cards_where_no_cores_are_charged(
    charges: Mapping[FlavorResource, int], cards: float
) -> None:
    assert count_cards(charges) == cards


@pytest.mark.parametrize(
    ("amounts", "total"),
    [([], {}), ([1], {CARDS: 1}), ([2, 2, 2], {CARDS: 6}), ([1, 2, 1], {CARDS: 4}), ([1, 1, 3], {CARDS: 5})],
)
def test_charges_of_tasks_are_summed(amounts: list[int], total: Mapping[FlavorResource, int]) -> None:
    tasks = held(running("j", "a", len(amounts)))
    asked = [
        replace(task, charges=(Charge(*CARDS, amount),)) for task, amount in zip(tasks, amounts, strict=True)
    ]
    assert sum_task_charges(asked) == total
    shared = [replace(task, charges=tasks[0].charges) for task in tasks]
    assert sum_task_charges(shared) == ({CARDS: len(tasks)} if tasks else {})


@pytest.mark.parametrize(
    ("facts", "ran", "lost"),
    [
        ({}, 1_000, 1_000),
        ({"admitted_at": None}, 0, 0),
        ({"admitted_at": Instant(10_500)}, 0, 0),
        ({"running_since": Instant(9_700)}, 300, 300),
        ({"checkpoint_interval_s": 400}, 1_000, 200),
        ({"checkpoint_interval_s": 500}, 1_000, 0),
    ],
)
def test_work_since_the_last_checkpoint_is_what_an_eviction_loses(
    facts: Mapping[str, object], ran: float, lost: float
) -> None:
    job = running("j", "a", 1, **facts)
    assert (running_seconds(job, NOW), unsaved_seconds(job, NOW)) == (ran, lost)


def part_of(name: str, tasks: int, least: int | None, **facts: object) -> Role:
    return Role(name=name, replicas=tasks, request=Request(), min_replicas=least, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("roles", "facts", "spared"),
    [
        # Later roles first, and of a role the last task.
        ((part_of("1", 2, 1), part_of("2", 3, 1)), {}, ["2/2", "2/1", "1/1"]),
        ((part_of("1", 2, 2), part_of("2", 3, 1)), {}, ["2/2", "2/1"]),
        # The job keeps its own minimum, whatever the minimum of its roles is.
        ((part_of("1", 2, 1), part_of("2", 3, 1)), {"min_available": 4}, ["2/2"]),
        ((part_of("1", 2, 1), part_of("2", 3, 1)), {"min_available": 1}, ["2/2", "2/1", "1/1"]),
        # Tasks that have ended count for the minimum of their role.
        ((part_of("1", 3, 3, ended=1),), {}, ["1/2"]),
        ((part_of("1", 3, 1, ended=2),), {}, ["1/2", "1/1", "1/0"]),
        # A part of a job keeps its minimum over all of its roles.
        (
            (part_of("1", 2, 0, sub_gang="p"), part_of("2", 2, 0, sub_gang="p"), part_of("3", 1, 0)),
            {"sub_gangs": (SubGang(name="p", min_available=3),), "min_available": 0},
            ["3/0", "2/1"],
        ),
        (
            (part_of("1", 2, 0, sub_gang="p"),),
            {"sub_gangs": (SubGang(name="p"),), "min_available": 0},
            ["1/1", "1/0"],
        ),
    ],
)
def test_a_gang_spares_what_it_can_do_without(
    roles: tuple[Role, ...], facts: Mapping[str, object], spared: list[str]
) -> None:
    job = replace(running("j", "a", 1), roles=roles, **facts)  # type: ignore[arg-type]
    assert [f"{task.role}/{task.index}" for task in find_surplus(job, held(job))] == spared


def test_a_task_of_a_role_that_is_gone_is_not_spared() -> None:
    job = running("j", "a", 3, least=1)
    other = [replace(task, role="gone") for task in held(job)]
    assert find_surplus(job, other) == ()
