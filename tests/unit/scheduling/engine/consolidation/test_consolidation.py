"""Moves that open room: never above capacity, never without a place, only for a net gain."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduling.engine import EngineConfig, resolve_config
from scheduling.engine.model import Node, PlacementRules, Request
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.placer import Placer
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape, resolve_shape
from scheduling.engine.stream_moves import MovableTask, StreamMovePlan, plan_moves
from tests.unit.scheduling.engine.builders import flavor, node, role

POOL = flavor(policy="compact")
RULE = resolve_config(EngineConfig()).rule


def shape(request: Request) -> TaskShape:
    return resolve_shape(request, PlacementRules(), POOL)


SMALL, HALF, WHOLE = (shape(role(1, cards, cpu=4_000).request) for cards in (1, 2, 4))


class World:
    """Nodes with tasks that may be moved."""

    def __init__(self, *nodes: Node) -> None:
        self.fleet = Fleet(nodes)
        self.placer = Placer(self.fleet, RULE)
        self.movables: list[MovableTask] = []

    def put(self, task: TaskShape, *names: str, movable: bool = True) -> None:
        rows = np.isin([node.id for node in self.fleet.nodes], names)
        seat = self.placer.find_placement(task, POOL, rows if names else None)
        assert seat is not None
        self.fleet.add_usage(seat.row, self.fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices))
        if movable:
            self.movables.append(MovableTask(f"t{len(self.movables)}", task, POOL, seat))

    def plan(self, moves: int, wanted: int | None = None) -> StreamMovePlan:
        return plan_moves(self.placer, self.movables, (WHOLE, POOL), moves=moves, wanted=wanted)

    def room(self) -> int:
        board = self.placer.get_board(WHOLE, POOL)
        return int(count_slots(board.question)[board.feasible_rows()].sum())

    def carry_out(self, plan: StreamMovePlan) -> None:
        fleet = self.fleet
        for move in plan.moves:
            task = move.task.task
            for seat, act in ((move.task.placement, fleet.remove_usage), (move.to, fleet.add_usage)):
                act(seat.row, fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices))


def scattered(per_node: int = 1, nodes: int = 4) -> World:
    world = World(*(node(f"n{at}") for at in range(nodes)))
    for at in range(nodes):
        for _ in range(per_node):
            world.put(SMALL, f"n{at}")
    return world


def test_the_fewest_tasks_are_moved() -> None:
    world = scattered()
    world.put(SMALL, "n0")
    plan = world.plan(1)
    assert [move.task.placement.node for move in plan.moves] == ["n1"]
    assert (plan.before, plan.after) == (0, 1)


def test_the_budget_bounds_whole_groups() -> None:
    """Every node holds two tasks; with one move nothing is opened, so none is made."""
    assert scattered(2).plan(1).openings == ()
    assert len(scattered(2).plan(3).moves) == 2


def test_no_more_is_opened_than_wanted() -> None:
    assert len(scattered().plan(100).openings) == 3
    assert len(scattered().plan(100, wanted=1).openings) == 1


def test_room_that_is_there_is_not_used_up() -> None:
    """Two nodes with a task each and an empty one: moving into the empty one would gain nothing."""
    world = World(node("n0"), node("n1"), node("n2"))
    world.put(HALF, "n0")
    world.put(HALF, "n0", movable=False)
    world.put(HALF, "n1")
    world.put(SMALL, "n1", movable=False)
    assert world.plan(10).openings == ()


def test_what_may_not_be_moved_stays() -> None:
    world = World(node("n0"), node("n1"))
    world.put(SMALL, "n0", movable=False)
    world.put(SMALL, "n1", movable=False)
    assert world.plan(10).openings == ()


def test_tasks_that_are_not_in_the_way_stay() -> None:
    """Whole cards are short, CPU is not: the task without cards keeps its place."""
    world = scattered(nodes=2)
    world.put(shape(role(1, 0, cpu=1_000).request), "n0")
    world.put(shape(role(1, 0, cpu=1_000).request), "n1")
    assert [move.task.task for move in world.plan(10).moves] == [SMALL]


def test_a_what_if_leaves_the_fleet_as_it_was() -> None:
    world = scattered(2, 6)
    before = world.fleet.cpu_free.copy(), world.fleet.cores_free.copy(), world.fleet.holders.copy()
    world.plan(100)
    after = world.fleet.cpu_free, world.fleet.cores_free, world.fleet.holders
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_keeps_its_promise(seed: int) -> None:
    lots = random.Random(seed)
    world = World(*(node(f"n{at:02}") for at in range(12)))
    for _ in range(26):
        world.put(lots.choice((SMALL, SMALL, HALF)), movable=lots.random() < 0.9)
    stay = [movable for movable in world.movables if lots.random() < 0.5]
    for movable in world.movables:
        if movable not in stay:
            task, seat = movable.task, movable.placement
            hold = world.fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices)
            world.fleet.remove_usage(seat.row, hold)
    world.movables = stay
    plan = world.plan(8)
    assert plan == world.plan(8)
    assert world.room() == plan.before
    world.carry_out(plan)
    assert world.room() == plan.after, "each group opens its room and uses up none elsewhere"
    assert len(plan.moves) <= 8
    assert len({move.task.id for move in plan.moves}) == len(plan.moves)
    assert (world.fleet.cores_free >= 0).all()
    assert (world.fleet.cpu_free >= 0).all()
