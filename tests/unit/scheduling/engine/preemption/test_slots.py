"""Slots for more tasks, row by row, with some tasks left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from scheduling.engine import Delta, NodePut, Snapshot
from scheduling.engine.model import Allocation, Job, Role
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.row import RowState
from scheduling.engine.preemption.trials import slot_counts as seats_module
from scheduling.engine.preemption.trials.slot_counts import (
    FreeSlotCounter,
    ShapeSlots,
    get_slot_counts,
    is_countable,
    is_decisive,
)
from scheduling.engine.state.fleet import ALL_ROWS
from tests.unit.scheduling.engine.builders import CARD_MIB, role
from tests.unit.scheduling.engine.preemption.placed_jobs import board_of, on, site

RunningJob = tuple[Job, tuple[Allocation, ...]]


def counted(vetoes: Sequence[tuple[str, bool]] = (), **facts: Any) -> ScoreBoard:
    """Return a board with what counting reads: vetoes by name, and whether each is fixed."""
    plain = {"pod_affinities": None, "extended": (), "derived": False}
    task = SimpleNamespace(**{**plain, "whole": True, "cards": 1, **facts})
    question = SimpleNamespace(task=task)
    named = [SimpleNamespace(name=name, fixed=fixed) for name, fixed in vetoes]
    return cast("ScoreBoard", SimpleNamespace(question=question, vetoes=named))


@pytest.mark.parametrize(
    ("board", "exact"),
    [
        (counted(), True),
        (counted(pod_affinities=object()), False),
        (counted(extended=("nic",)), False),
        (counted(derived=True), False),
        (counted(cards=4), True),
        (counted(cards=4, whole=False), False),
        (counted(cards=2, whole=False), False),
        (counted(cards=1, whole=False), True),
        (counted(cards=0, whole=False), True),
        (counted(vetoes=[("cpu", False), ("own", True)]), True),
        (counted(vetoes=[("cpu", False), ("own", False)]), False),
    ],
)
def test_counting_is_exact_where_tasks_are_alike_and_ask_nothing_of_each_other(
    board: ScoreBoard, exact: bool
) -> None:
    assert is_countable(board) is exact


@dataclass(frozen=True, kw_only=True)
class Case:
    """Jobs on nodes, the shape that is counted, and the slots of each row: now, and without `gone`."""

    standing: list[RunningJob]
    asked: Role
    now: list[int]
    then: list[int]
    gone: str = "j"
    cards: Sequence[int] = (2, 2)
    facts: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "whole cards": Case(standing=[on("j", "a", "n0:0")], asked=role(1, 1), now=[1, 2], then=[2, 2]),
    "two at a time": Case(standing=[on("j", "a", "n0:0")], asked=role(1, 2), now=[0, 1], then=[1, 1]),
    "two of three": Case(
        standing=[on("j", "a", "n0:1")], asked=role(1, 2), now=[1, 1], then=[1, 1], cards=(3, 3)
    ),
    "a whole card is taken by any part": Case(
        standing=[on("j", "a", "n0:0@10"), on("k", "a", "n0:0@10", "n1:1@10")],
        asked=role(1, 1),
        now=[1, 1],
        then=[1, 1],
    ),
    "several jobs away": Case(
        standing=[on("j", "a", "n0:0@10", "n0:0@10", "n1:1")], asked=role(1, 1), now=[1, 1], then=[2, 2]
    ),
    "parts": Case(
        standing=[on("j", "a", "n0:0@30"), on("k", "a", "n1:0@60", "n1:1@80")],
        asked=role(1, 1, cores=40),
        now=[1 + 2, 1],
        then=[2 + 2, 1],
    ),
    "parts of a whole card": Case(
        standing=[on("j", "a", "n0:0,1"), on("k", "a", "n1:0")],
        asked=role(1, 1, cores=50),
        now=[0, 2],
        then=[4, 2],
    ),
    "parts by memory": Case(
        standing=[on("j", "a", "n0:0@50")],
        asked=role(1, 1, cores=10, card_memory=CARD_MIB // 2),
        now=[1 + 2, 4],
        then=[4, 4],
    ),
    "processors": Case(
        standing=[on("j", "a", "n0", cpu=20_000)],
        asked=role(1, 0, cpu=15_000),
        now=[2, 4],
        then=[4, 4],
    ),
    "memory": Case(
        standing=[on("j", "a", "n0", "n1", memory=200_000)],
        asked=role(1, 0, memory=250_000),
        now=[1, 1],
        then=[2, 2],
    ),
    "the scarcest": Case(
        standing=[on("j", "a", "n0:0", cpu=60_000)],
        asked=role(1, 1, cpu=40_000, memory=300_000),
        now=[0, 1],
        then=[1, 1],
    ),
    "how many tasks a node runs": Case(
        standing=[on("j", "a", "n0", "n0"), on("k", "a", "n0", "n1")],
        asked=role(1, 0, cpu=1),
        now=[1, 3],
        then=[3, 3],
        facts={"pods": 4},
    ),
    "nobody stands there": Case(
        standing=[on("j", "a", "away:0", "n1:0")], asked=role(1, 1), now=[2, 1], then=[2, 2]
    ),
    "a node that takes nobody": Case(
        standing=[on("j", "a", "n0:0", "n1:0")],
        asked=role(1, 1),
        now=[0, 0],
        then=[0, 0],
        facts={"schedulable": False},
    ),
}
MANY = 1_000


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("needed", [1, 3, MANY])
def test_slots_are_counted_with_tasks_there_and_away(case: Case, needed: int) -> None:
    snapshot = site(case.cards, {"a": 9}, case.standing, **case.facts)
    seats = FreeSlotCounter(ShapeSlots(board_of(snapshot, case.asked)), needed)
    tasks = snapshot.allocations_of(case.gone)

    def check(slots: list[int]) -> None:
        assert [max(0, seats.copy_row(row).count_slots()) for row in (0, 1) if any(slots)] == (
            slots if any(slots) else []
        )
        assert seats.total == sum(min(count, needed) for count in slots)
        assert seats.fits == (seats.total >= needed)

    assert seats.initial_counts.tolist() == case.now
    check(case.now)
    for _ in range(2):
        seats.remove_tasks(tasks)
        check(case.then)
        seats.remove_tasks(tasks, -1)
        check(case.now)
    assert seats.initial_counts.tolist() == case.now


def compare_while_released(snapshot: Snapshot, case: Case, counted_now: Callable[[], object]) -> None:
    """Compare after each released task, and check that all is restored in the end."""
    before = counted_now()
    with snapshot.statement() as statement:
        for task in snapshot.allocations_of(case.gone):
            statement.release(task.id)
            counted_now()
    assert counted_now() == before


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_few_changed_rows_are_counted_as_many_are(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = site(case.cards, {"a": 9}, case.standing, **case.facts)
    board = board_of(snapshot, case.asked)
    one_by_one, together = ShapeSlots(board), ShapeSlots(board)

    def counted_now() -> tuple[list[int], list[int]]:
        monkeypatch.setattr(seats_module, "FEW_ROWS", 0)
        expected = together.current_counts().tolist(), together.usable_cards.tolist()
        monkeypatch.setattr(seats_module, "FEW_ROWS", len(case.cards))
        assert (one_by_one.current_counts().tolist(), one_by_one.usable_cards.tolist()) == expected
        return expected

    compare_while_released(snapshot, case, counted_now)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_board_that_is_counted_answers_as_one_that_asks_its_vetoes(case: Case) -> None:
    snapshot = site(case.cards, {"a": 9}, case.standing, **case.facts)
    counted = board_of(snapshot, case.asked)
    board = ScoreBoard(counted.question, counted.vetoes, ())
    get_slot_counts(counted)
    assert board.counts is None is not counted.counts

    def counted_now() -> list[bool]:
        for row in (0, 1) if board.question.task.cards else ():
            cards = np.flatnonzero(board.question.fitting(ALL_ROWS)[row]).tolist()
            assert RowState(board.question, row).fitting_columns() == cards
        expected: list[bool] = board.feasible_rows().tolist()
        assert counted.feasible_rows().tolist() == expected
        return expected

    compare_while_released(snapshot, case, counted_now)


def test_slots_are_not_decisive_without_every_veto() -> None:
    board = board_of(site([2], {"a": 2}, []), role(1, 1))
    assert is_decisive(board)
    board.vetoes = tuple(veto for veto in board.vetoes if veto.name != "card-memory")
    assert is_countable(board)
    assert not is_decisive(board)


def test_a_row_in_use_keeps_its_own_state() -> None:
    snapshot = site([2], {"a": 2}, [on("j", "a", "n0:0", "n0:1")])
    seats = FreeSlotCounter(ShapeSlots(board_of(snapshot, role(1, 1))), 2)
    first, second = snapshot.allocations_of("j")
    for thought_away in ((), (first,)):
        seats.remove_tasks(thought_away)
        alone = seats.copy_row(0)
        before = alone.count_slots()
        alone.apply_task(second, 1)
        assert (alone.count_slots(), seats.copy_row(0).count_slots()) == (before + 1, before)
        alone.apply_task(second, -1)
        assert alone.count_slots() == before


def test_rows_are_counted_again_where_something_changed() -> None:
    snapshot = site([2, 2, 2], {"a": 6}, [on("j", "a", "n1:0", "n1:1"), on("k", "a", "n2:0@10")])
    whole, part = (
        ShapeSlots(board_of(snapshot, role(1, 1))),
        ShapeSlots(board_of(snapshot, role(1, 1, cores=50))),
    )
    assert (whole.current_counts().tolist(), part.current_counts().tolist()) == ([2, 0, 1], [4, 0, 3])
    assert (whole.count_up_to(2), whole.count_up_to(9), part.count_up_to(9)) == (2, 3, 7)
    with snapshot.statement() as statement:
        statement.release("j/worker/0")
        assert (whole.current_counts().tolist(), part.current_counts().tolist()) == ([2, 1, 1], [4, 2, 3])
        assert (whole.usable_cards.tolist(), whole.count_up_to(9), part.count_up_to(9)) == ([2, 1, 1], 4, 9)
        statement.release("k/worker/0")
        assert (whole.current_counts().tolist(), part.current_counts().tolist()) == ([2, 1, 2], [4, 2, 4])
    assert (whole.current_counts().tolist(), part.current_counts().tolist()) == ([2, 0, 1], [4, 0, 3])
    assert whole.usable_cards.tolist() == [2, 0, 1]


def test_a_row_is_counted_as_it_is_now_whatever_was_read_before() -> None:
    snapshot = site([2, 2], {"a": 4}, [on("j", "a", "n0:0", "n0:1")])
    slots = ShapeSlots(board_of(snapshot, role(1, 1)))
    slots.current_counts()

    def counted_now() -> list[int]:
        return [slots.build_row(row).count_slots() for row in (0, 1)]

    assert counted_now() == [0, 2]
    with snapshot.statement() as statement:
        statement.release("j/worker/0")
        # All rows were not counted since.
        assert counted_now() == [1, 2]
        slots.current_counts()
        slots.build_row(0).apply_task(snapshot.allocations_of("j")[0], 1)
        assert counted_now() == [1, 2]
    assert counted_now() == [0, 2]


def test_nodes_that_change_are_counted_again() -> None:
    snapshot = site([2, 2], {"a": 4}, [])
    slots = get_slot_counts(board_of(snapshot, role(1, 1)))
    assert slots is get_slot_counts(slots.board)
    assert slots.current_counts().tolist() == [2, 2]
    first, second = snapshot.fleet.nodes
    broken = (replace(second.devices[0], healthy=False), *second.devices[1:])
    for changed, left in (
        (replace(first, schedulable=False), [0, 2]),
        (replace(second, devices=broken), [0, 1]),
        (first, [2, 1]),
        (second, [2, 2]),
    ):
        snapshot.apply_delta(Delta((NodePut(changed),)))
        assert slots.current_counts().tolist() == left
        assert get_slot_counts(slots.board) is slots


def test_free_parts_of_cards_that_became_unhealthy_are_read_without_counting_first() -> None:
    snapshot = site([4], {"a": 4}, [])
    slots = get_slot_counts(board_of(snapshot, role(1, 1, cores=50)))
    assert slots.free_amounts().tolist() == [400]
    (only,) = snapshot.fleet.nodes
    broken = tuple(replace(device, healthy=index > 1) for index, device in enumerate(only.devices))
    snapshot.apply_delta(Delta((NodePut(replace(only, devices=broken)),)))
    assert slots.free_amounts().tolist() == [200]
