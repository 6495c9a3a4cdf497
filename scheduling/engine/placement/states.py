"""What nodes look like to a set of shapes: each state of a node is worked out once.

Nodes of one type with equal amounts left are in the same state. A state has the scores of all shapes,
and the steps that placements of shapes make from it to other states; steps are taken without another
look at the fleet. Cards and CPU are apart, as far more nodes have cards alike than CPU and cards.
Memory plays no part here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import and_
from typing import Any, NamedTuple

import numpy as np

from scheduling.engine.placement.devices import CardPicker
from scheduling.engine.placement.grid import BY_PICKER, GridScore, NodeCards, Numbers, ShapeTable
from scheduling.engine.placement.ladder import Ladder, least, limit
from scheduling.engine.placement.node_types import NodeType, node_types
from scheduling.engine.placement.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Parts

# States kept; beyond that they are forgotten and worked out again when they recur.
KEPT_STATES = 200_000


# What is left on one card, core units and MiB, and whether it is in use, or shut to parts.
_Card = tuple[int, int, bool, bool]


class _Cards(NamedTuple):
    """The cards of a node by column, and which classes of tasks it holds, if that counts."""

    type: NodeType
    cards: tuple[_Card, ...]
    classes: tuple[bool, ...] | None

    def after(self, taken: Parts) -> _Cards:
        """The cards when a task holds these parts of them as well."""
        cards = list(self.cards)
        for column, cores, space, exclusive in taken:
            left, memory, _, shut = cards[column]
            cards[column] = (left - cores, memory - space, True, shut or exclusive)
        classes = self.classes
        if classes is not None:
            held = len(taken) if taken[0][3] else 0
            classes = (*classes[:held], True, *classes[held + 1 :])
        return _Cards(self.type, tuple(cards), classes)

    def empty(self) -> list[bool]:
        """Which cards nobody uses."""
        sizes = zip(self.type.sizes, self.cards, strict=True)
        return [(left, memory) == size and not used for size, (left, memory, used, _) in sizes]


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
    table: NodeCards
    room: Numbers
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
        self._bounds = bounds
        self._asked = table = ShapeTable(tuple(question.task for question, _ in asked))
        self._card_memory = least(table.card_memory)
        self._cpu: list[int] = table.cpu.tolist()
        self._ladder = Ladder(table.cpu, bounds)
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
        cards = zip(
            fleet.cores_free[node].tolist(),
            fleet.card_memory_free[node].tolist(),
            fleet.holders[node].astype(np.bool_).tolist(),
            fleet.exclusive[node].tolist(),
            strict=True,
        )
        classes = tuple(fleet.classes[node].astype(np.bool_).tolist()) if self._score.classes else None
        now = _Cards(self._type[node], tuple(cards), classes)
        return self._state(fleet.cpu_free.item(node), self._cards_of(now))

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
            scores = np.minimum(self._columns.scores(cpu, cards.table), cards.room)
            most = self._ladder.within(cpu)
            if most is not None:
                np.minimum(scores, most, out=scores)
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
        amounts = tuple([card[0] for card in now.cards])
        # Where all cards of a node are alike to every shape, counting them needs no look at each.
        alike = kind.alike and not any([card[3] and card[0] for card in now.cards])
        table = NodeCards(self._fleet, kind.row, amounts, now.classes, lambda _: self._fitting(now)[:, None])
        if not alike:
            return _CardState(now, table, self._room(now))
        table.full = kind.full[0]
        most = self._most_parts
        roomiest = tuple(sorted(amounts)[-most:]) if most > 1 else max(amounts)
        key = kind, now.cards.count((*kind.full, False, False)), roomiest
        room = self._known_room.get(key)
        if room is None:
            room = self._known_room[key] = self._room(now)
        return _CardState(now, table, room)

    def _fitting(self, now: _Cards) -> Bools:
        """The cards that take a shape's part, as `Question.fitting` does for one. `[shapes, cards]`."""
        asked = self._asked
        left, memory, _, shut = np.array(now.cards, np.int64).reshape(-1, 4).T
        partly = (left >= asked.cores[:, None]) & (memory >= self._card_memory[:, None])
        fitting: Bools = np.where(asked.whole[:, None], now.empty(), partly & (shut == 0))
        return fitting & now.type.usable

    def _room(self, now: _Cards) -> Numbers:
        roomy = np.count_nonzero(self._fitting(now), axis=1) >= self._asked.cards
        return limit(roomy & now.type.lasting, self._bounds)

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
            fitting = list(compress(range(len(usable)), map(and_, usable, now.empty())))
        else:
            fitting = [
                column
                for column, (left, memory, _, shut) in enumerate(now.cards)
                if usable[column]
                and not shut
                and left >= task.cores
                and (not task.card_memory or memory >= task.card_memory)
            ]
        return self._picker.among(task, fitting, cards.table.amounts, [card[1] for card in now.cards])


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
