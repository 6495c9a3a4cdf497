"""What nodes look like to a set of shapes: each state of a node is worked out once.

Nodes of one kind with equal amounts left are in the same state. A state has the scores of all shapes,
and the steps that placements of shapes make from it to other states; steps are taken without another
look at the fleet. Cards and CPU are apart, as far more nodes have cards alike than CPU and cards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

import numpy as np

from scheduling.engine.placement.devices import CardPicker
from scheduling.engine.placement.grid import (
    BY_PICKER,
    CardTable,
    Grid,
    GridScore,
    NodeTable,
    Numbers,
    ShapeTable,
)
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import Bools, Fleet, Hold, Ints

# States kept; beyond that they are forgotten and worked out again when they recur.
KEPT_STATES = 200_000
LEAST = np.iinfo(np.int64).min
Held = tuple[tuple[int, int, int, bool], ...]


class _Cards(NamedTuple):
    """What is left on the cards of a node, by column, and which classes of tasks it holds, if that counts."""

    kind: int
    left: tuple[int, ...]
    memory: tuple[int, ...]
    used: tuple[bool, ...]
    shut: tuple[bool, ...]
    classes: tuple[bool, ...] | None

    def after(self, taken: Held) -> _Cards:
        """The cards when a task holds these parts of them as well."""
        left, memory, used, shut = list(self.left), list(self.memory), list(self.used), list(self.shut)
        for column, cores, space, exclusive in taken:
            left[column] -= cores
            memory[column] -= space
            used[column] = True
            shut[column] = shut[column] or exclusive
        classes = self.classes
        if classes is not None:
            held = len(taken) if taken[0][3] else 0
            classes = (*classes[:held], True, *classes[held + 1 :])
        return _Cards(self.kind, tuple(left), tuple(memory), tuple(used), tuple(shut), classes)


@dataclass(slots=True, eq=False)
class _CardState:
    """Cards of nodes of one kind with equal amounts left: which shapes they take, and on which cards.

    `states` are those with these cards, by CPU left; `after` the cards when more of them is held.
    """

    now: _Cards
    empty: list[bool]
    table: CardTable
    limit: Numbers
    picks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    holds: dict[tuple[int, tuple[int, ...]], Hold] = field(default_factory=dict)
    after: dict[Held, _CardState] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class State:
    """Nodes of one kind with equal amounts left. `scores` is the column, infeasible shapes marked.

    `grid` is None where all cards are left to the picker.
    """

    scores: Numbers
    grid: Grid | None
    cpu: int
    cards: _CardState
    steps: dict[int, Step] = field(default_factory=dict)


class Step(NamedTuple):
    """What placing one task of a shape does to a node: the cards taken, the hold, the state after."""

    columns: tuple[int, ...]
    hold: Hold
    after: State


class States:
    """The states of a fleet's nodes for one set of shapes under one score.

    `lasting` `[shapes, nodes]` marks the nodes that a shape may ever use, `base` is equal for nodes of
    equal capacity; `lowest` and `highest` are the scores of what fits nowhere and of what always fits.
    """

    def __init__(
        self,
        fleet: Fleet,
        score: GridScore,
        picker: CardPicker,
        asked: Sequence[tuple[Question, Bools]],
        base: Ints,
        bounds: tuple[Any, Any],
    ) -> None:
        self._fleet, self._score, self._picker = fleet, score, picker
        self._lowest, self._highest = bounds
        self._asked = table = ShapeTable(tuple(question.task for question, _ in asked))
        self._card_memory = _or_least([task.card_memory if task.cards else 0 for task in table.tasks])
        self._cpu_steps, self._cpu_limits = self._ladder(_or_least(table.cpu.tolist()))
        self._memory_steps, self._memory_limits = self._ladder(_or_least(table.memory.tolist()))
        # Of the cards with room for parts only so many of the roomiest matter.
        self._most_parts = int(table.cards[~table.whole].max(initial=0))
        self._sort_nodes(asked, base)
        self._kept = 0
        self._forget()

    def find(self, node: int) -> State:
        """The state that a node is in now."""
        fleet = self._fleet
        now = _Cards(
            self._kind[node],
            tuple(fleet.cores_free[node].tolist()),
            tuple(fleet.card_memory_free[node].tolist()),
            tuple(fleet.holders[node].astype(np.bool_).tolist()),
            tuple(fleet.exclusive[node].tolist()),
            tuple(fleet.classes[node].astype(np.bool_).tolist()) if self._score.classes else None,
        )
        return self._state(int(fleet.cpu_free[node]), self._cards_of(now, node))

    def step(self, state: State, shape: int, node: int) -> Step:
        """What a task of a shape that fits does to a node in this state."""
        step = state.steps.get(shape)
        if step is None:
            task, cards = self._asked.tasks[shape], state.cards
            columns = self._columns(state, shape) if task.cards else ()
            hold = cards.holds.get((shape, columns))
            if hold is None:
                hold = cards.holds[shape, columns] = self._hold(task, node, columns)
            after = cards
            if columns:
                known = cards.after.get(hold.cards)
                if known is None:
                    known = cards.after[hold.cards] = self._cards_of(cards.now.after(hold.cards), node)
                after = known
            step = state.steps[shape] = Step(columns, hold, self._state(state.cpu - task.cpu, after))
        return step

    def within(self, memory: int) -> Numbers | None:
        """What scores may be at most with so much memory left; None where it suffices for every shape."""
        step = bisect_right(self._memory_steps, memory)
        return None if step == len(self._memory_steps) else self._memory_limits[step]

    def full(self) -> bool:
        """Whether there are too many states; they are then forgotten, and nodes have to be found anew."""
        if self._kept < KEPT_STATES:
            return False
        self._forget()
        return True

    def _sort_nodes(self, asked: Sequence[tuple[Question, Bools]], base: Ints) -> None:
        """Nodes are of one kind if their fixed parts are and lasting vetoes treat them alike."""
        fleet, size, width = self._fleet, len(asked), self._fleet.present.shape[1]
        lasting = np.array([mask for _, mask in asked], np.bool_).reshape(size, len(fleet))
        facts = np.concatenate([base[None], lasting.view(np.uint8)]).T
        kinds = codes(np.ascontiguousarray(facts))
        _, first = np.unique(kinds, return_index=True)
        rows = first.tolist()
        self._kind: list[int] = kinds.tolist()
        self._lasts = [np.ascontiguousarray(lasting[:, row]) for row in rows]
        self._usable: list[Bools] = [
            np.array([question.usable[row] for question, _ in asked], np.bool_).reshape(size, width)
            for row in rows
        ]
        self._sizes = [_sizes(fleet, row) for row in rows]
        plain = not (self._card_memory[~self._asked.whole] > LEAST).any()
        self._alike = [
            plain and bool((usable == (usable.max(axis=1, initial=False)[:, None] & there)).all())
            for usable, there in zip(self._usable, (fleet.present[row] for row in rows), strict=True)
        ]

    def _forget(self) -> None:
        self._known: dict[_Cards, _CardState] = {}
        self._known_room: dict[object, Numbers] = {}
        self._asked.memo.clear()
        self._kept = 0

    def _state(self, cpu: int, cards: _CardState) -> State:
        state = cards.states.get(cpu)
        if state is None:
            state = cards.states[cpu] = self._column(cpu, cards)
            self._kept += 1
        return state

    def _column(self, cpu: int, cards: _CardState) -> State:
        grid = self._score.grid(self._asked, NodeTable(np.array((cpu,), np.int64), cards.table))
        scores = grid.scores[:, 0].astype(cards.limit.dtype, copy=False)
        scores = np.minimum(scores, cards.limit)
        np.minimum(scores, self._cpu_limits[bisect_right(self._cpu_steps, cpu)], out=scores)
        return State(scores, grid if grid.choosy else None, cpu, cards)

    def _cards_of(self, now: _Cards, node: int) -> _CardState:
        known = self._known.get(now)
        if known is None:
            known = self._known[now] = self._cards(now, node)
        return known

    def _cards(self, now: _Cards, node: int) -> _CardState:
        sizes = self._sizes[now.kind]
        empty = [
            size == found and not used
            for size, found, used in zip(sizes, zip(now.left, now.memory, strict=True), now.used, strict=True)
        ]
        holds = None if now.classes is None else (now.classes,)
        table = CardTable(
            self._fleet,
            slice(node, node + 1),
            (now.left,),
            holds,
            lambda _: self._fitting(now, empty)[:, None],
        )
        if not self._alike[now.kind]:
            return _CardState(now, empty, table, self._room(now, empty))
        # Where all cards of a node are alike to every shape, counting them needs no look at each.
        table.alike = not any(compress(now.left, now.shut))
        parts = sorted(compress(now.left, map(not_, now.shut)))
        key = (now.kind, empty.count(True), tuple(parts[len(parts) - self._most_parts :]))
        limit = self._known_room.get(key)
        if limit is None:
            limit = self._known_room[key] = self._room(now, empty)
        return _CardState(now, empty, table, limit)

    def _fitting(self, now: _Cards, empty: list[bool]) -> Bools:
        """The cards that take a shape's part, as `Question.fitting` does for one. `[shapes, cards]`."""
        asked, left, memory = self._asked, np.array(now.left, np.int64), np.array(now.memory, np.int64)
        partly = (left >= asked.cores[:, None]) & (memory >= self._card_memory[:, None])
        fitting: Bools = np.where(asked.whole[:, None], empty, partly & ~np.array(now.shut, np.bool_))
        return fitting & self._usable[now.kind]

    def _room(self, now: _Cards, empty: list[bool]) -> Numbers:
        roomy = np.count_nonzero(self._fitting(now, empty), axis=1) >= self._asked.cards
        return self._limit(roomy & self._lasts[now.kind])

    def _ladder(self, asked: Ints) -> tuple[list[int], list[Numbers]]:
        """The different amounts that shapes ask for, and the limits while the first k of them are free."""
        steps: list[int] = np.unique(asked).tolist()
        nobody = np.zeros(asked.shape, np.bool_)
        return steps, [self._limit(fits) for fits in (nobody, *(asked <= step for step in steps))]

    def _limit(self, fits: Bools) -> Numbers:
        """What a score may be at most: anything where the shape fits, else infeasible. `[shapes]`."""
        limit: Numbers = np.where(fits, self._highest, self._lowest)
        return limit

    def _hold(self, task: TaskShape, node: int, columns: tuple[int, ...]) -> Hold:
        taken = []
        for column in columns:
            device = self._fleet.device(node, column)
            cores, memory = (device.cores, device.memory) if task.whole else (task.cores, task.card_memory)
            taken.append((column, cores, memory, task.whole))
        return Hold(task.cpu, task.memory, tuple(taken))

    def _columns(self, state: State, shape: int) -> tuple[int, ...]:
        cards, column = state.cards, BY_PICKER if state.grid is None else state.grid.column(shape, 0)
        if column != BY_PICKER:
            return (column,)
        known = cards.picks.get(shape)
        if known is None:
            known = cards.picks[shape] = self._picked(cards, shape)
        return known

    def _picked(self, cards: _CardState, shape: int) -> tuple[int, ...]:
        task, now = self._asked.tasks[shape], cards.now
        usable: list[bool] = self._usable[now.kind][shape].tolist()
        if task.whole:
            fitting = [at for at, fits in enumerate(usable) if fits and cards.empty[at]]
        else:
            fitting = [
                at
                for at, fits in enumerate(usable)
                if fits
                and not now.shut[at]
                and now.left[at] >= task.cores
                and (not task.card_memory or now.memory[at] >= task.card_memory)
            ]
        return self._picker.among(task, fitting, now.left, now.memory)


def _sizes(fleet: Fleet, row: int) -> list[tuple[int, int] | None]:
    """Core units and MiB of each card of a node when empty; None where there is no card."""
    cores, memory = fleet.card_cores[row].tolist(), fleet.card_memory[row].tolist()
    there = fleet.present[row].tolist()
    found = zip(cores, memory, strict=True)
    return [pair if present else None for pair, present in zip(found, there, strict=True)]


def _or_least(amounts: list[int]) -> Ints:
    """Amounts to compare with what is left; who asks for nothing is not refused for overuse by others."""
    return np.array([amount or LEAST for amount in amounts], np.int64)


def codes(facts: Numbers) -> Ints:
    """The same small number for equal rows, another for others."""
    if not len(facts):
        return np.zeros(0, np.int64)
    _, codes = np.unique(facts, axis=0, return_inverse=True)
    flat: Ints = codes.reshape(-1).astype(np.int64)
    return flat
