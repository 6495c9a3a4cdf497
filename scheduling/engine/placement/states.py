"""What nodes look like to a set of shapes: each state of a node is worked out once.

Nodes of one type with equal amounts left are in the same state. A state has the scores of all shapes,
and the steps that placements of shapes make from it to other states; steps are taken without another
look at the fleet. Cards and CPU are apart, as far more nodes have cards alike than CPU and cards.
Memory only limits who fits, and stays with the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from scheduling.engine.placement.index.grid import (
    BY_PICKER,
    CardTable,
    GridScore,
    NodeCards,
    Numbers,
    ShapeTable,
)
from scheduling.engine.placement.index.limits import Limits, least
from scheduling.engine.placement.index.node_types import NOTHING, NodeType, node_types
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.scores.devices import CardPicker
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Parts

# States kept; beyond that they are forgotten and worked out again when they recur.
KEPT_STATES = 200_000


class _Cards(NamedTuple):
    """The cards of a node by column: core units and MiB left, which are in use, and which shut to parts.

    `classes` are those of which the node holds tasks, if that counts. On a `regular` node what is left on
    a card tells all about it: an empty one has all its core units left, one that is shut has none.
    """

    type: NodeType
    left: tuple[int, ...]
    memory: tuple[int, ...]
    used: tuple[bool, ...]
    shut: tuple[bool, ...]
    classes: tuple[bool, ...] | None
    regular: bool

    def after(self, taken: Parts) -> _Cards:
        """The cards when a task holds these parts of them as well. Regular nodes stay so."""
        left, memory, used, shut = list(self.left), self.memory, self.used, self.shut
        for column, cores, space, exclusive in taken:
            left[column] -= cores
            if space:
                memory = (*memory[:column], memory[column] - space, *memory[column + 1 :])
            if not used[column]:
                used = (*used[:column], True, *used[column + 1 :])
            if exclusive:
                shut = (*shut[:column], True, *shut[column + 1 :])
        classes = self.classes
        if classes is not None:
            held = len(taken) if taken[0][3] else 0
            classes = (*classes[:held], True, *classes[held + 1 :])
        return _Cards(self.type, tuple(left), memory, used, shut, classes, self.regular)

    def empty(self) -> list[bool]:
        """Which cards nobody uses."""
        cards = zip(self.type.sizes, self.left, self.memory, self.used, strict=True)
        return [(left, memory) == size and not used for size, left, memory, used in cards]


@dataclass(slots=True, eq=False)
class _CardState:
    """Cards of nodes of one type with equal amounts left.

    `room` is the number of their limits, `states` are those with these cards, by CPU left. `taken` is
    what becomes of them when a task takes its part, by what it wants and the column if the score says it.
    """

    now: _Cards
    table: NodeCards
    room: int
    taken: dict[tuple[int, int], _Taken] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class State:
    """Nodes of one type with equal amounts left.

    `scores` `[shapes]` mean nothing for shapes that do not fit; `base` is the number of the limits.
    """

    scores: Numbers
    base: int
    cpu: int
    cards: _CardState


# The columns and the parts that a task takes, and the cards or the node after that. Bare tuples, as they
# are made for most tasks.
_Taken = tuple[tuple[int, ...], Parts, _CardState]
Step = tuple[tuple[int, ...], Parts, State]
NO_CARDS: tuple[int, ...] = ()
NO_PARTS: Parts = ()


class States:
    """The states of a fleet's nodes for one set of shapes under one score.

    `asked` are the shapes with the nodes that each may ever use, `base` is equal for nodes of equal
    capacity.
    """

    def __init__(
        self,
        fleet: Fleet,
        score: GridScore,
        picker: CardPicker,
        asked: Sequence[tuple[Question, Bools]],
        base: Ints,
        limits: Limits,
    ) -> None:
        self._fleet, self._score, self._picker = fleet, score, picker
        self._limits = limits
        self._asked = table = ShapeTable(tuple(question.task for question, _ in asked))
        self._card_memory = least(table.card_memory)
        self._cpu: list[int] = table.cpu.tolist()
        # Of the cards with room for parts only so many of the roomiest matter.
        self._most_parts = most = int(table.cards[~table.whole].max(initial=0))
        # What the roomiest card, or that of this rank, must have left for all parts of a shape to fit.
        width = max(1, min(most, fleet.present.shape[1]))
        self._rank = -np.minimum(table.cards, width)
        self._enough = np.where(table.cards <= width, least(table.cores), np.iinfo(np.int64).max)
        self._type = node_types(fleet, asked, table, base)
        self._forget()

    def find(self, node: int) -> State:
        """The state that a node is in now."""
        fleet = self._fleet
        left, memory = tuple(fleet.cores_free[node].tolist()), tuple(fleet.card_memory_free[node].tolist())
        used, shut = _marks(fleet.holders[node]), _marks(fleet.exclusive[node])
        classes = _marks(fleet.classes[node]) if self._score.classes else None
        now = _Cards(self._type[node], left, memory, used, shut, classes, False)
        now = now._replace(regular=_is_regular(now))
        return self._state(fleet.cpu_free.item(node), self._cards_of(now))

    def step(self, state: State, shape: int) -> Step:
        """What a task of a shape that fits does to a node in this state."""
        cards = state.cards
        demand = cards.now.type.demand[shape]
        if demand == NOTHING:
            columns, parts, after = NO_CARDS, NO_PARTS, cards
        else:
            columns_of = self._columns
            column = columns_of.card(state.cpu, cards.table, shape) if columns_of.choosy else BY_PICKER
            taken = cards.taken.get((demand, column))
            if taken is None:
                taken = cards.taken[demand, column] = self._taken(cards, shape, column)
            columns, parts, after = taken
        return columns, parts, self._state(state.cpu - self._cpu[shape], after)

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
        self._known_room: dict[object, int] = {}
        self._asked.memo.clear()
        self._columns = self._score.columns(self._asked, self._fleet)
        self._kept = 0

    def _state(self, cpu: int, cards: _CardState) -> State:
        state = cards.states.get(cpu)
        if state is None:
            scores, base = self._columns.scores(cpu, cards.table), self._limits.base(cards.room, cpu)
            state = cards.states[cpu] = State(scores, base, cpu, cards)
            self._kept += 1
        return state

    def _cards_of(self, now: _Cards) -> _CardState:
        known = self._known.get(now)
        if known is None:
            known = self._known[now] = self._cards(now)
        return known

    def _cards(self, now: _Cards) -> _CardState:
        kind, left = now.type, now.left
        full = kind.full[0] if now.regular else None
        table = NodeCards(self._fleet, kind.row, left, now.classes, partial(self._fitting, now), full)
        if full is None:
            return _CardState(now, table, self._room(now, table))
        most = self._most_parts
        roomiest = sorted(left)[-most:] if most > 1 else (max(left),)
        key = kind, left.count(full), *roomiest
        room = self._known_room.get(key)
        if room is None:
            room = self._known_room[key] = self._room_of(kind, left.count(full), roomiest)
        return _CardState(now, table, room)

    def _room_of(self, kind: NodeType, empty: int, roomiest: Sequence[int]) -> int:
        """The limits where so many cards are empty and, in ascending order, so much is left on others."""
        parts = np.array(roomiest).take(self._rank, mode="wrap") >= self._enough
        roomy = np.where(self._asked.whole, self._asked.cards <= empty, parts)
        return self._limits.room(roomy & kind.lasting)

    def _fitting(self, now: _Cards, table: CardTable) -> Bools:
        """The cards that take a shape's part, as `Question.fitting` does for one. `[shapes, 1, cards]`."""
        asked = self._asked
        partly = np.array(now.left) >= asked.cores[:, None]
        partly &= np.array(now.memory) >= self._card_memory[:, None]
        partly &= ~np.array(now.shut)
        fitting: Bools = np.where(asked.whole[:, None], now.empty(), partly) & now.type.usable
        return fitting[:, None]

    def _room(self, now: _Cards, table: CardTable) -> int:
        roomy = np.count_nonzero(table.fitting[:, 0], axis=1) >= self._asked.cards
        return self._limits.room(roomy & now.type.lasting)

    def _taken(self, cards: _CardState, shape: int, column: int) -> _Taken:
        columns = self._picked(cards, shape) if column == BY_PICKER else (column,)
        task, taken = self._asked.tasks[shape], []
        for at in columns:
            size = cards.now.type.sizes[at] if task.whole else None
            taken.append((at, *(size or (task.cores, task.card_memory)), task.whole))
        parts = tuple(taken)
        return columns, parts, self._cards_of(cards.now.after(parts))

    def _picked(self, cards: _CardState, shape: int) -> tuple[int, ...]:
        task, now, full = self._asked.tasks[shape], cards.now, cards.table.full
        if full is None:
            fitting: list[int] = np.flatnonzero(cards.table.fitting[shape, 0]).tolist()
        else:
            need = full if task.whole else task.cores
            fitting = [column for column, left in enumerate(now.left) if left >= need]
        return self._picker.among(task, fitting, now.left, now.memory)


def _is_regular(now: _Cards) -> bool:
    """Whether what is left on each card tells all about it."""
    full = now.type.full[0]
    cards = zip(now.empty(), now.left, now.shut, strict=True)
    return now.type.alike and all(
        empty or (left < full and not (shut and left)) for empty, left, shut in cards
    )


def _marks(counts: Numbers) -> tuple[bool, ...]:
    return tuple(counts.astype(np.bool_).tolist())
