"""What nodes look like to a set of shapes: each state of a node is worked out once.

Nodes of one type with equal amounts left are in the same state. A state has the scores of all shapes,
and the steps that placements of shapes make from it to other states; steps are taken without another
look at the fleet. Cards and CPU are apart, as far more nodes have cards alike than CPU and cards.
Memory plays no part: who asks for it compares what the nodes have left.
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
from scheduling.engine.placement.grid import BY_PICKER, GridScore, NodeCards, Numbers, ShapeTable
from scheduling.engine.placement.node_types import NodeType, node_types
from scheduling.engine.placement.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Parts

# States kept; beyond that they are forgotten and worked out again when they recur.
KEPT_STATES = 200_000
LEAST = np.iinfo(np.int64).min


class _Cards(NamedTuple):
    """What is left on the cards of a node, by column, and which classes of tasks it holds, if that counts."""

    type: NodeType
    left: tuple[int, ...]
    memory: tuple[int, ...]
    used: tuple[bool, ...]
    shut: tuple[bool, ...]
    classes: tuple[bool, ...] | None

    def after(self, taken: Parts) -> _Cards:
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
        return _Cards(self.type, tuple(left), tuple(memory), tuple(used), tuple(shut), classes)


class _Taken(NamedTuple):
    """What a task holds of a node's cards, and the cards after that."""

    parts: Parts
    after: _CardState


@dataclass(slots=True, eq=False)
class _CardState:
    """Cards of nodes of one type with equal amounts left: which shapes they take, and on which cards.

    `states` are those with these cards, by CPU left; `picks` the picker's cards and `taken` what
    becomes of these, by what shapes want of cards.
    """

    now: _Cards
    empty: list[bool]
    table: NodeCards
    limit: Numbers
    picks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    taken: dict[tuple[int, tuple[int, ...]], _Taken] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class State:
    """Nodes of one type with equal amounts left. `scores` is the column, infeasible shapes marked."""

    scores: Numbers
    cpu: int
    cards: _CardState
    steps: dict[int, Step] = field(default_factory=dict)


class Step(NamedTuple):
    """What placing one task of a shape does to a node: the columns and parts taken, the state after."""

    columns: tuple[int, ...]
    parts: Parts
    after: State


class States:
    """The states of a fleet's nodes for one set of shapes under one score.

    `asked` are the shapes with the nodes that each may ever use, `base` is equal for nodes of equal
    capacity; `bounds` are the scores of what fits nowhere and of what always fits.
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
        self._card_memory = _or_least(table.card_memory)
        self._cpu: list[int] = table.cpu.tolist()
        self._cpu_steps, self._cpu_limits = self._ladder(_or_least(table.cpu))
        # Of the cards with room for parts only so many of the roomiest matter.
        self._most_parts = int(table.cards[~table.whole].max(initial=0))
        self._demand = _numbered(
            [(task.cards, task.whole, task.cores, task.card_memory) for task in table.tasks]
        )
        self._type = node_types(fleet, asked, table, base)
        self._forget()

    def find(self, node: int) -> State:
        """The state that a node is in now."""
        fleet = self._fleet
        now = _Cards(
            self._type[node],
            tuple(fleet.cores_free[node].tolist()),
            tuple(fleet.card_memory_free[node].tolist()),
            tuple(fleet.holders[node].astype(np.bool_).tolist()),
            tuple(fleet.exclusive[node].tolist()),
            tuple(fleet.classes[node].astype(np.bool_).tolist()) if self._score.classes else None,
        )
        return self._state(int(fleet.cpu_free[node]), self._cards_of(now))

    def step(self, state: State, shape: int) -> Step:
        """What a task of a shape that fits does to a node in this state."""
        step = state.steps.get(shape)
        if step is None:
            cards, columns, parts = state.cards, (), ()
            if self._asked.tasks[shape].cards:
                columns = self._chosen(state, shape)
                parts, cards = self._taken(cards, shape, columns)
            after = self._state(state.cpu - self._cpu[shape], cards)
            step = state.steps[shape] = Step(columns, parts, after)
        return step

    def relearn(self, score: GridScore) -> None:
        """Score anew by another score of the same kind; `anew` tells what becomes of states."""
        self._score, self._columns = score, score.columns(self._asked, self._fleet)
        self._kept = 0
        for cards in self._known.values():
            cards.states = {}
            cards.table.memo.clear()

    def anew(self, state: State) -> State:
        """The state as it is after `relearn`."""
        return self._state(state.cpu, state.cards)

    def full(self) -> bool:
        """Whether there are too many states; they are then forgotten, and nodes have to be found anew."""
        if self._kept < KEPT_STATES:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._known: dict[_Cards, _CardState] = {}
        self._known_room: dict[object, Numbers] = {}
        self._asked.memo.clear()
        self._columns = self._score.columns(self._asked, self._fleet)
        self._kept = 0

    def _state(self, cpu: int, cards: _CardState) -> State:
        state = cards.states.get(cpu)
        if state is None:
            scores = np.minimum(self._columns.scores(cpu, cards.table), cards.limit)
            np.minimum(scores, self._cpu_limits[bisect_right(self._cpu_steps, cpu)], out=scores)
            state = cards.states[cpu] = State(scores, cpu, cards)
            self._kept += 1
        return state

    def _cards_of(self, now: _Cards) -> _CardState:
        known = self._known.get(now)
        if known is None:
            known = self._known[now] = self._cards(now)
        return known

    def _cards(self, now: _Cards) -> _CardState:
        kind = now.type
        empty = [
            size == found and not used
            for size, found, used in zip(
                kind.sizes, zip(now.left, now.memory, strict=True), now.used, strict=True
            )
        ]
        # Where all cards of a node are alike to every shape, counting them needs no look at each.
        alike = kind.alike and not any(compress(now.left, now.shut))
        table = NodeCards(
            self._fleet,
            kind.row,
            now.left,
            now.classes,
            lambda _: self._fitting(now, empty)[:, None],
            full=kind.full if alike else None,
        )
        if not kind.alike:
            return _CardState(now, empty, table, self._room(now, empty))
        parts = sorted(compress(now.left, map(not_, now.shut)))
        key = (kind, empty.count(True), tuple(parts[len(parts) - self._most_parts :]))
        limit = self._known_room.get(key)
        if limit is None:
            limit = self._known_room[key] = self._room(now, empty)
        return _CardState(now, empty, table, limit)

    def _fitting(self, now: _Cards, empty: list[bool]) -> Bools:
        """The cards that take a shape's part, as `Question.fitting` does for one. `[shapes, cards]`."""
        asked, left, memory = self._asked, np.array(now.left, np.int64), np.array(now.memory, np.int64)
        partly = (left >= asked.cores[:, None]) & (memory >= self._card_memory[:, None])
        fitting: Bools = np.where(asked.whole[:, None], empty, partly & ~np.array(now.shut, np.bool_))
        return fitting & now.type.usable

    def _room(self, now: _Cards, empty: list[bool]) -> Numbers:
        roomy = np.count_nonzero(self._fitting(now, empty), axis=1) >= self._asked.cards
        return self._limit(roomy & now.type.lasting)

    def _ladder(self, asked: Ints) -> tuple[list[int], list[Numbers]]:
        """The different amounts that shapes ask for, and the limits while the first k of them are free."""
        steps: list[int] = np.unique(asked).tolist()
        nobody = np.zeros(asked.shape, np.bool_)
        return steps, [self._limit(fits) for fits in (nobody, *(asked <= step for step in steps))]

    def _limit(self, fits: Bools) -> Numbers:
        """What a score may be at most: anything where the shape fits, else infeasible. `[shapes]`."""
        limit: Numbers = np.where(fits, self._highest, self._lowest)
        return limit

    def _taken(self, cards: _CardState, shape: int, columns: tuple[int, ...]) -> _Taken:
        key = self._demand[shape], columns
        taken = cards.taken.get(key)
        if taken is None:
            parts = _parts(self._asked, shape, columns, cards.now.type)
            taken = cards.taken[key] = _Taken(parts, self._cards_of(cards.now.after(parts)))
        return taken

    def _chosen(self, state: State, shape: int) -> tuple[int, ...]:
        cards = state.cards
        column = self._columns.card(state.cpu, cards.table, shape)
        if column != BY_PICKER:
            return (column,)
        # Shapes that want the same of cards get the same, unless they may use other cards of the node.
        key = self._demand[shape] if cards.now.type.alike else ~shape
        known = cards.picks.get(key)
        if known is None:
            known = cards.picks[key] = self._picked(cards, shape)
        return known

    def _picked(self, cards: _CardState, shape: int) -> tuple[int, ...]:
        task, now = self._asked.tasks[shape], cards.now
        usable: list[bool] = now.type.usable[shape].tolist()
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


def _parts(asked: ShapeTable, shape: int, columns: tuple[int, ...], kind: NodeType) -> Parts:
    """What a task of a shape holds on these cards: its part, or all that a card has."""
    task = asked.tasks[shape]
    taken = []
    for column in columns:
        size = kind.sizes[column] if task.whole else None
        taken.append((column, *(size or (task.cores, task.card_memory)), task.whole))
    return tuple(taken)


def _numbered(items: Sequence[object]) -> list[int]:
    """The same number for equal items."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]


def _or_least(amounts: Ints) -> Ints:
    """Amounts to compare with what is left; who asks for nothing is not refused for overuse by others."""
    return np.where(amounts > 0, amounts, LEAST)
