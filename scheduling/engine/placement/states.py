"""This module computes each state of a node once for a set of shapes.

Nodes of one type with equal free amounts are in the same state. A state has the scores of all shapes, and the
steps that placements of shapes make from it to other states; steps are taken without reading the fleet. Cards
and CPU are kept apart, because far more nodes have equal cards than equal CPU and cards. Memory only limits
which shapes fit, and stays with the node.
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
from scheduling.engine.placement.index.limits import ScoreLimits, comparable_amounts
from scheduling.engine.placement.index.node_types import NOTHING, NodeType, node_types
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.scores.devices import CardPicker
from scheduling.engine.state.fleet import Bools, CardUsages, Fleet, Ints, count_marked

# The number of cached states; beyond it all are dropped and computed again when they recur.
MAX_STATES = 200_000


class _Cards(NamedTuple):
    """The cards of a node by column: free core units and MiB, which are in use, and which are closed to
    parts.

    `classes` are the task classes on the node, if that counts. On a `regular` node the free amount describes
    a card completely: an empty one has all its core units free, a closed one has none.
    """

    type: NodeType
    left: tuple[int, ...]
    memory: tuple[int, ...]
    used: tuple[bool, ...]
    closed: tuple[bool, ...]
    classes: tuple[bool, ...] | None
    regular: bool

    def after_taking(self, taken: CardUsages) -> _Cards:
        """Return the cards after a task took these parts of them as well. Regular nodes stay regular."""
        left, memory, used, closed = list(self.left), self.memory, self.used, self.closed
        for column, cores, space, exclusive in taken:
            left[column] -= cores
            if space:
                memory = (*memory[:column], memory[column] - space, *memory[column + 1 :])
            if not used[column]:
                used = (*used[:column], True, *used[column + 1 :])
            if exclusive:
                closed = (*closed[:column], True, *closed[column + 1 :])
        classes = self.classes
        if classes is not None:
            held = len(taken) if taken[0][3] else 0
            classes = (*classes[:held], True, *classes[held + 1 :])
        return _Cards(self.type, tuple(left), memory, used, closed, classes, self.regular)

    def empty_cards(self) -> list[bool]:
        """Return which cards are unused."""
        cards = zip(self.type.sizes, self.left, self.memory, self.used, strict=True)
        return [(left, memory) == size and not used for size, left, memory, used in cards]


@dataclass(slots=True, eq=False)
class _CardState:
    """The cards of nodes of one type with equal free amounts.

    `room` is the number of their limits, `states` are the states with these cards, by free CPU. `taken` has
    the cards after a task took its part, by card demand and the column if the score chooses it.
    """

    now: _Cards
    table: NodeCards
    room: int
    taken: dict[tuple[int, int], _Taken] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class State:
    """Nodes of one type with equal free amounts.

    `scores_on_node` `[shapes]` are meaningless for shapes that do not fit; `base` is the number of the
    limits.
    """

    scores: Numbers
    base: int
    cpu: int
    cards: _CardState


# The columns and the parts that a task takes, and the cards or the node after it. They are plain tuples
# because one is made for most tasks.
_Taken = tuple[tuple[int, ...], CardUsages, _CardState]
Step = tuple[tuple[int, ...], CardUsages, State]
NO_CARDS: tuple[int, ...] = ()
NO_PARTS: CardUsages = ()


class States:
    """The states of a fleet's nodes for one set of shapes under one score.

    `asked` are the shapes with the nodes that each may ever use, `base` is equal for nodes of equal capacity.
    """

    def __init__(
        self,
        fleet: Fleet,
        score: GridScore,
        picker: CardPicker,
        asked: Sequence[tuple[Question, Bools]],
        base: Ints,
        limits: ScoreLimits,
    ) -> None:
        self._fleet, self._score, self._picker = fleet, score, picker
        self._limits = limits
        self._asked = table = ShapeTable(tuple(question.task for question, _ in asked))
        self._card_memory = comparable_amounts(table.card_memory)
        self._cpu: list[int] = table.cpu.tolist()
        # Of the partly used cards only this many with the largest free amounts matter.
        self._most_parts = most = int(table.cards[~table.whole].max(initial=0))
        # The free amount that the card of this rank must have for all parts of a shape to fit.
        width = max(1, min(most, fleet.present.shape[1]))
        self._rank = -np.minimum(table.cards, width)
        self._enough = np.where(table.cards <= width, comparable_amounts(table.cores), np.iinfo(np.int64).max)
        self._type = node_types(fleet, asked, table, base)
        self._forget()

    def find_state(self, node: int) -> State:
        """Return the present state of a node."""
        fleet = self._fleet
        left, memory = tuple(fleet.cores_free[node].tolist()), tuple(fleet.card_memory_free[node].tolist())
        used, closed = _marks(fleet.holders[node]), _marks(fleet.exclusive[node])
        classes = _marks(fleet.classes[node]) if self._score.classes else None
        found = self._type[node], left, memory, used, closed, classes
        cards = self._found.get(found)
        if cards is None:
            now = _Cards(*found, regular=False)
            cards = self._found[found] = self._cards_of(now._replace(regular=_is_regular(now)))
        return self._state(fleet.cpu_free.item(node), cards)

    def take_step(self, state: State, shape: int) -> Step:
        """Return the effect of placing a task of a shape that fits on a node in this state."""
        cards = state.cards
        demand = cards.now.type.demand[shape]
        if demand == NOTHING:
            columns, parts, after = NO_CARDS, NO_PARTS, cards
        else:
            columns_of = self._columns
            column = columns_of.best_card(state.cpu, cards.table, shape) if columns_of.choosy else BY_PICKER
            taken = cards.taken.get((demand, column))
            if taken is None:
                taken = cards.taken[demand, column] = self._taken(cards, shape, column)
            columns, parts, after = taken
        return columns, parts, self._state(state.cpu - self._cpu[shape], after)

    def replace_score(self, score: GridScore) -> None:
        """Score again by another score of the same kind; `renew_state` returns the successors of states."""
        self._score, self._columns = score, score.node_columns(self._asked, self._fleet)
        self._state_count = 0
        for cards in self._known.values():
            cards.states = {}
            cards.table.memo.clear()

    def renew_state(self, state: State) -> State:
        """Return the state as it is after `replace_score`."""
        return self._state(state.cpu, state.cards)

    def is_full(self) -> bool:
        """Return whether there are too many states; then they are dropped and nodes are found again."""
        if self._state_count < MAX_STATES:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._known: dict[_Cards, _CardState] = {}
        # The same by what is read of a node: whether it is regular takes long to find out.
        self._found: dict[tuple[object, ...], _CardState] = {}
        self._known_room: dict[object, int] = {}
        self._asked.memo.clear()
        self._columns = self._score.node_columns(self._asked, self._fleet)
        self._state_count = 0

    def _state(self, cpu: int, cards: _CardState) -> State:
        state = cards.states.get(cpu)
        if state is None:
            scores, base = (
                self._columns.scores_on_node(cpu, cards.table),
                self._limits.number_cpu_fit(cards.room, cpu),
            )
            state = cards.states[cpu] = State(scores, base, cpu, cards)
            self._state_count += 1
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
        """Return the limits for a number of empty cards and the ascending free amounts of others."""
        parts = np.array(roomiest).take(self._rank, mode="wrap") >= self._enough
        roomy = np.where(self._asked.whole, self._asked.cards <= empty, parts)
        return self._limits.number_card_fit(roomy & kind.lasting)

    def _fitting(self, now: _Cards, table: CardTable) -> Bools:
        """Return the cards that take a shape's part, as `Question.fitting`. `[shapes, 1, cards]`."""
        asked = self._asked
        partly = np.array(now.left) >= asked.cores[:, None]
        partly &= np.array(now.memory) >= self._card_memory[:, None]
        partly &= ~np.array(now.closed)
        fitting: Bools = np.where(asked.whole[:, None], now.empty_cards(), partly) & now.type.usable
        return fitting[:, None]

    def _room(self, now: _Cards, table: CardTable) -> int:
        roomy = count_marked(table.fitting[:, 0]) >= self._asked.cards
        return self._limits.number_card_fit(roomy & now.type.lasting)

    def _taken(self, cards: _CardState, shape: int, column: int) -> _Taken:
        columns = self._picked(cards, shape) if column == BY_PICKER else (column,)
        task, taken = self._asked.tasks[shape], []
        for at in columns:
            size = cards.now.type.sizes[at] if task.whole else None
            taken.append((at, *(size or (task.cores, task.card_memory)), task.whole))
        parts = tuple(taken)
        return columns, parts, self._cards_of(cards.now.after_taking(parts))

    def _picked(self, cards: _CardState, shape: int) -> tuple[int, ...]:
        task, now, full = self._asked.tasks[shape], cards.now, cards.table.full
        if full is None:
            fitting: list[int] = np.flatnonzero(cards.table.fitting[shape, 0]).tolist()
        else:
            need = full if task.whole else task.cores
            fitting = [column for column, left in enumerate(now.left) if left >= need]
        return self._picker.choose_among(task, fitting, now.left, now.memory)


def _is_regular(now: _Cards) -> bool:
    """Return whether the free amount describes each card completely."""
    full = now.type.full[0]
    cards = zip(now.empty_cards(), now.left, now.closed, strict=True)
    return now.type.has_equal_cards and all(
        empty or (left < full and not (closed and left)) for empty, left, closed in cards
    )


def _marks(counts: Numbers) -> tuple[bool, ...]:
    return tuple(counts.astype(np.bool_).tolist())
