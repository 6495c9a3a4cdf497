"""The score matrix of one policy: every known shape against every node, always up to date.

Rows of the matrix are shapes, columns are nodes in (rank, id) order, so the first maximum of a row is
the best node with its tie rule. A placement changes one node; its column is then scored again for all
shapes in one call. Nodes of one kind with equal amounts left are in the same *state*, for which the
column is worked out once; so is the step from a state to the next by a placement of a shape. This
pays where many shapes alternate, as in a packing run; a board serves few shapes and any veto.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from scheduling.engine.model import Flavor, GpuMode
from scheduling.engine.placement.devices import CardPicker
from scheduling.engine.placement.grid import (
    BY_PICKER,
    CardTable,
    GridScore,
    NodeTable,
    Numbers,
    ShapeTable,
    pairs,
)
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.placement.vetoes import VETOES
from scheduling.engine.plugins.protocols import Veto
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Hold, Ints

# The passing vetoes that a column applies. The engine's others are about wishes that `servable` excludes.
APPLIED = ("cpu", "memory", "card-cores", "card-memory")
# What a shape may ask for; any other wish has to be absent.
USUAL = (
    "flavor", "policy", "cpu", "memory", "cards", "mode", "cores", "card_memory", "models", "whole",
    "node_name", "selector", "affinity", "tolerations", "aligned", "best_effort", "liking",
)  # fmt: skip
_UNUSUAL = tuple((entry.name, entry.default) for entry in fields(TaskShape) if entry.name not in USUAL)
# States kept; beyond that they are forgotten and worked out again when they recur.
KEPT_STATES = 200_000
LEAST = np.iinfo(np.int64).min


def columnar(vetoes: Iterable[Veto]) -> bool:
    """Whether a matrix can stand for these vetoes: the engine's own, and any others that last.

    It needs all of those that it applies itself.
    """
    vetoes = tuple(vetoes)
    return all(veto.fixed or veto in VETOES for veto in vetoes) and all(
        veto in vetoes for veto in VETOES if veto.name in APPLIED
    )


class _Cards(NamedTuple):
    """What is left on the cards of a node, by column, and which classes of tasks it holds, if that counts."""

    kind: int
    left: tuple[int, ...]
    memory: tuple[int, ...]
    used: tuple[bool, ...]
    shut: tuple[bool, ...]
    classes: tuple[bool, ...] | None


@dataclass(slots=True, eq=False)
class _CardState:
    """Cards of nodes of one kind with equal amounts left: which shapes they take, and on which cards."""

    now: _Cards
    empty: list[bool]
    table: CardTable
    limit: Numbers
    picks: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class State:
    """Nodes of one kind with equal amounts left. `scores` is the column, infeasible shapes marked."""

    scores: Numbers
    columns: Ints | None
    cards: _CardState
    steps: dict[int, Step] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Step:
    """What placing one task of a shape does to a node: the cards taken, the hold, the state after."""

    columns: tuple[int, ...]
    hold: Hold
    after: State | None = None


class ScoreMatrix:
    """Scores of shapes on the nodes of a fleet under one policy.

    A row lives as long as the matrix. Shapes that are known beforehand should be announced together
    (`expect`), as every addition makes the matrix forget its states.
    """

    def __init__(self, fleet: Fleet, score: GridScore, vetoes: Sequence[Veto], picker: CardPicker) -> None:
        self.fleet = fleet
        self._score = score
        self._fixed = tuple(veto for veto in vetoes if veto.fixed)
        self._passing = tuple(veto for veto in vetoes if not veto.fixed)
        self._picker = picker
        floor, highest = -np.inf, np.inf
        if score.dtype.kind in "iu":
            floor, highest = np.iinfo(score.dtype).min, np.iinfo(score.dtype).max
        self.infeasible: Any = score.dtype.type(floor)
        self._highest: Any = score.dtype.type(highest)
        self._matrix: Numbers = np.full((0, len(fleet)), floor, score.dtype)
        self._index: dict[TaskShape, int] = {}
        self._questions: list[Question] = []
        self._rows: list[Numbers] = []
        self._lasting: list[Bools] = []
        self._base = _capacity_codes(fleet)
        self._note_changes()
        self._tabulate()

    def __len__(self) -> int:
        return len(self._index)

    def expect(self, asked: Iterable[tuple[TaskShape, Flavor]]) -> None:
        """Add all shapes that are not known yet, and score them together."""
        fresh = [pair for pair in dict(asked).items() if pair[0] not in self._index]
        for task, flavor in fresh:
            self._add(task, flavor)
        if fresh:
            self._tabulate()
            self._rescore_all()

    def index(self, task: TaskShape, flavor: Flavor) -> int:
        """The row of a shape, added on first sight."""
        known = self._index.get(task)
        if known is None:
            self._catch_up()
            known = self._add(task, flavor)
            self._tabulate()
            self._fill(known)
        return known

    def best(self, shape: int) -> int | None:
        """The node with the highest score, the first of equals; None where the shape fits nowhere."""
        if self._seen != len(self.fleet.touched) or self._epoch != self.fleet.epoch:
            self._catch_up()
        scores = self._rows[shape]
        if not len(scores):
            return None
        node = int(scores.argmax())
        return node if scores[node] != self.infeasible else None

    def scores(self, shape: int) -> Numbers:
        """The scores of a shape on all nodes, `infeasible` where it does not fit."""
        self._catch_up()
        return self._rows[shape]

    def take(self, shape: int, node: int) -> tuple[int, ...]:
        """Place one task of a shape on a node that fits; the columns of its cards."""
        state = self._state_of(node)
        step = state.steps.get(shape)
        if step is None:
            step = state.steps[shape] = self._step(state, shape, node)
        self.fleet.hold(node, step.hold)
        if self._epoch != self.fleet.epoch or self._seen + 1 != len(self.fleet.touched):
            self._catch_up()
            return step.columns
        self._seen += 1
        if step.after is None:
            step.after = self._find(node)
        self._write(node, step.after)
        return step.columns

    def relearn(self, score: GridScore) -> None:
        """Score everything anew by another score of the same kind."""
        self._score = score
        self._tabulate()
        self._rescore_all()

    def _add(self, task: TaskShape, flavor: Flavor) -> int:
        index = self._index[task] = len(self._index)
        self._look_up(task, flavor)
        if index >= len(self._matrix):
            room = max(64, 2 * index)
            grown = np.full((room, len(self.fleet)), self.infeasible, self._matrix.dtype)
            grown[:index] = self._matrix[:index]
            self._matrix = grown
        return index

    def _look_up(self, task: TaskShape, flavor: Flavor) -> None:
        question = Question(self.fleet, task, flavor)
        lasting = question.members.copy()
        for veto in self._fixed:
            lasting &= veto.allows(question, ALL_ROWS)
        self._questions.append(question)
        self._lasting.append(lasting)

    def _tabulate(self) -> None:
        """Work out what depends on the set of shapes, and forget all states."""
        size, fleet = len(self._index), self.fleet
        self._asked = asked = ShapeTable(tuple(self._index))
        self._card_memory: Ints = _or_least([task.card_memory if task.cards else 0 for task in asked.tasks])
        self._cpu_steps, self._cpu_limits = self._ladder(_or_least(asked.cpu.tolist()))
        self._memory = _or_least(asked.memory.tolist())
        self._memory_steps, self._memory_limits = self._ladder(self._memory)
        self._live = self._matrix[:size]
        self._rows = list(self._live)
        lasting = np.array(self._lasting, np.bool_).reshape(size, len(fleet))
        # Nodes are of one kind if their fixed parts are and lasting vetoes treat them alike.
        facts = np.concatenate([self._base[None], lasting.view(np.uint8)]).T
        kinds = _codes(np.ascontiguousarray(facts))
        _, first = np.unique(kinds, return_index=True)
        self._kind: list[int] = kinds.tolist()
        self._lasts = [np.ascontiguousarray(lasting[:, row]) for row in first.tolist()]
        width = fleet.present.shape[1]
        self._usable: list[Bools] = [
            np.array([question.usable[row] for question in self._questions], np.bool_).reshape(size, width)
            for row in first.tolist()
        ]
        cards = [fleet.present[row] for row in first.tolist()]
        self._sizes: list[list[tuple[int, int] | None]] = [_sizes(fleet, row) for row in first.tolist()]
        plain = not (self._card_memory[~asked.whole] > LEAST).any()
        self._alike = [
            plain and bool((usable == (usable.max(axis=1, initial=False)[:, None] & there)).all())
            for usable, there in zip(self._usable, cards, strict=True)
        ]
        # Of the cards with room for parts only so many of the roomiest matter.
        self._most_parts = int(asked.cards[~asked.whole].max(initial=0))
        self._states: list[State | None] = [None] * len(fleet)
        self._forget()

    def _note_changes(self) -> None:
        fleet = self.fleet
        self._seen, self._revised, self._epoch = len(fleet.touched), len(fleet.revised), fleet.epoch

    def _forget(self) -> None:
        self._known: dict[object, State] = {}
        self._known_cards: dict[object, _CardState] = {}
        self._known_room: dict[object, Numbers] = {}

    def _rescore_all(self) -> None:
        self._note_changes()
        for node in range(len(self.fleet)):
            self._write(node, self._find(node))

    def _start_over(self) -> None:
        """What lasts has changed on some nodes, or the log of changes was cut."""
        questions, self._questions, self._lasting = self._questions, [], []
        self._base = _capacity_codes(self.fleet)
        for question in questions:
            self._look_up(question.task, question.flavor)
        self._tabulate()
        self._rescore_all()

    def _catch_up(self) -> None:
        fleet = self.fleet
        if self._epoch != fleet.epoch or self._revised != len(fleet.revised):
            self._start_over()
        elif self._seen < len(fleet.touched):
            changed = sorted(set(fleet.touched[self._seen :]))
            self._seen = len(fleet.touched)
            for node in changed:
                self._write(node, self._find(node))

    def _fill(self, shape: int) -> None:
        """Score one shape on all nodes."""
        question = self._questions[shape]
        feasible = self._lasting[shape].copy()
        for veto in self._passing:
            feasible &= veto.allows(question, ALL_ROWS)
        row = self._rows[shape]
        row[:] = self.infeasible
        np.copyto(row, self._score.grid(*pairs(question, ALL_ROWS)).scores[0], "unsafe", feasible)

    def _write(self, node: int, state: State) -> None:
        self._states[node] = state
        step = bisect_right(self._memory_steps, int(self.fleet.memory_free[node]))
        if step == len(self._memory_steps):
            self._live[:, node] = state.scores
        else:
            np.minimum(state.scores, self._memory_limits[step], out=self._live[:, node])

    def _state_of(self, node: int) -> State:
        state = self._states[node]
        if state is None:
            state = self._states[node] = self._find(node)
        return state

    def _find(self, node: int) -> State:
        """The state that a node is in now."""
        fleet = self.fleet
        now = _Cards(
            self._kind[node],
            tuple(fleet.cores_free[node].tolist()),
            tuple(fleet.card_memory_free[node].tolist()),
            tuple(fleet.holders[node].astype(np.bool_).tolist()),
            tuple(fleet.exclusive[node].tolist()),
            tuple(fleet.classes[node].astype(np.bool_).tolist()) if self._score.classes else None,
        )
        cpu = int(fleet.cpu_free[node])
        state = self._known.get((cpu, now))
        if state is None:
            cards = self._known_cards.get(now)
            if cards is None:
                cards = self._known_cards[now] = self._cards(node, now)
            if len(self._known) >= KEPT_STATES:
                self._forget()
            state = self._known[cpu, now] = self._column(cpu, cards)
        return state

    def _cards(self, node: int, now: _Cards) -> _CardState:
        sizes = self._sizes[now.kind]
        empty = [
            size == found and not used
            for size, found, used in zip(sizes, zip(now.left, now.memory, strict=True), now.used, strict=True)
        ]
        holds = None if now.classes is None else (now.classes,)
        table = CardTable(
            self.fleet,
            slice(node, node + 1),
            (now.left,),
            holds,
            lambda _: self._fitting(now, empty)[:, None],
        )
        if not self._alike[now.kind]:
            return _CardState(now, empty, table, self._room(now, empty))
        # Where all cards of a node are alike to every shape, counting them needs no look at each.
        parts = sorted([left for left, shut in zip(now.left, now.shut, strict=True) if not shut])
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
        limit: Numbers = np.where(fits, self._highest, self.infeasible)
        return limit

    def _column(self, cpu: int, cards: _CardState) -> State:
        enough = self._cpu_limits[bisect_right(self._cpu_steps, cpu)]
        grid = self._score.grid(self._asked, NodeTable(np.array((cpu,), np.int64), cards.table))
        scores = grid.scores[:, 0].astype(self._matrix.dtype, copy=False)
        scores = np.minimum(np.minimum(scores, cards.limit), enough)
        return State(scores, None if grid.columns is None else grid.columns[:, 0], cards)

    def _step(self, state: State, shape: int, node: int) -> Step:
        task = self._asked.tasks[shape]
        columns = self._columns(state, shape, node) if task.cards else ()
        fleet, taken = self.fleet, []
        for column in columns:
            device = fleet.device(node, column)
            cores, memory = (device.cores, device.memory) if task.whole else (task.cores, task.card_memory)
            taken.append((column, cores, memory, task.whole))
        return Step(columns, Hold(task.cpu, task.memory, tuple(taken)))

    def _columns(self, state: State, shape: int, node: int) -> tuple[int, ...]:
        if state.columns is not None and state.columns[shape] != BY_PICKER:
            return (int(state.columns[shape]),)
        cards = state.cards
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


def servable(task: TaskShape, fleet: Fleet) -> bool:
    """Whether a column can answer for the shape there: CPU, memory, whole cards and slices, nothing else."""
    if task.mode is GpuMode.MIG or any(getattr(task, name) != plain for name, plain in _UNUSUAL):
        return False
    return fleet.pods is None and fleet.zones is None and not fleet.presences.version


def _sizes(fleet: Fleet, row: int) -> list[tuple[int, int] | None]:
    """Core units and MiB of each card of a node when empty; None where there is no card."""
    cores, memory = fleet.card_cores[row].tolist(), fleet.card_memory[row].tolist()
    there = fleet.present[row].tolist()
    found = zip(cores, memory, strict=True)
    return [pair if present else None for pair, present in zip(found, there, strict=True)]


def _or_least(amounts: list[int]) -> Ints:
    """Amounts to compare with what is left; who asks for nothing is not refused for overuse by others."""
    return np.array([amount or LEAST for amount in amounts], np.int64)


def _capacity_codes(fleet: Fleet) -> Ints:
    """The same code for nodes with the same capacity and cards, usage apart."""
    parts = (fleet.model, fleet.mode, fleet.healthy, fleet.present, fleet.card_cores, fleet.card_memory)
    facts = [fleet.cpu[:, None], *(part.astype(np.int64) for part in parts)]
    return _codes(np.concatenate(facts, axis=1))


def _codes(facts: Numbers) -> Ints:
    """The same small number for equal rows, another for others."""
    if not len(facts):
        return np.zeros(0, np.int64)
    _, codes = np.unique(facts, axis=0, return_inverse=True)
    flat: Ints = codes.reshape(-1).astype(np.int64)
    return flat
