"""The score matrix of one policy: every known shape against every node, always up to date.

Rows of the matrix are *kinds*, shapes that differ in memory alone; columns are nodes in (rank, id)
order, so the first maximum of a row is the best node with its tie rule. Memory seldom decides, so it is
looked at when a node was found. A placement changes one node; its column is then scored again for all
kinds in one call. Nodes of one type with equal amounts left are in the same *state*, for which the
column is worked out once; so is the step from a state to the next by a placement of a kind. This
pays where many shapes alternate, as in a packing run; a board serves few shapes and any veto.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from scheduling.engine.model import Flavor, GpuMode
from scheduling.engine.placement.devices import CardPicker
from scheduling.engine.placement.grid import GridScore, Numbers, pairs
from scheduling.engine.placement.node_types import capacity_codes
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.placement.states import State, States
from scheduling.engine.placement.vetoes import VETOES
from scheduling.engine.plugins.protocols import Veto
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet

# The passing vetoes that a column applies. The engine's others are about wishes that `servable` excludes.
MEMORY = "memory"
APPLIED = ("cpu", MEMORY, "card-cores", "card-memory")
# What a shape may ask for; any other wish has to be absent.
USUAL = (
    "flavor", "policy", "cpu", "memory", "cards", "mode", "cores", "card_memory", "models", "whole",
    "node_name", "selector", "affinity", "tolerations", "aligned", "best_effort", "liking",
)  # fmt: skip
_UNUSUAL = tuple((entry.name, entry.default) for entry in fields(TaskShape) if entry.name not in USUAL)


def columnar(vetoes: Iterable[Veto]) -> bool:
    """Whether a matrix can stand for these vetoes: the engine's own, and any others that last.

    It needs all of those that it applies itself.
    """
    vetoes = tuple(vetoes)
    return all(veto.fixed or veto in VETOES for veto in vetoes) and all(
        veto in vetoes for veto in VETOES if veto.name in APPLIED
    )


class _Line(NamedTuple):
    """Where a shape is looked up: its kind, the scores of that on all nodes, and the MiB that it asks for."""

    kind: int
    scores: Numbers
    memory: int


class ScoreMatrix:
    """Scores of shapes on the nodes of a fleet under one policy.

    A shape lives as long as the matrix. Shapes that are known beforehand should be announced together
    (`expect`), as every new kind makes the matrix forget its states.
    """

    def __init__(self, fleet: Fleet, score: GridScore, vetoes: Sequence[Veto], picker: CardPicker) -> None:
        self.fleet = fleet
        self._score = score
        self._fixed = tuple(veto for veto in vetoes if veto.fixed)
        self._passing = tuple(veto for veto in vetoes if not veto.fixed)
        # Others' vetoes may read anything of a shape.
        self._by_kind = all(veto in VETOES for veto in self._fixed)
        self._picker = picker
        floor, highest = -np.inf, np.inf
        if score.dtype.kind in "iu":
            floor, highest = np.iinfo(score.dtype).min, np.iinfo(score.dtype).max
        self._bounds = score.dtype.type(floor), score.dtype.type(highest)
        self.infeasible = float(floor)
        self._matrix: Numbers = np.full((0, len(fleet)), floor, score.dtype)
        self._index: dict[TaskShape, int] = {}
        self._kinds: dict[TaskShape, int] = {}
        self._asked: list[tuple[Question, Bools]] = []
        self._lines: list[_Line] = []
        self._base = capacity_codes(fleet)
        self._note_changes()
        self._tabulate()

    def __len__(self) -> int:
        return len(self._index)

    def expect(self, asked: Iterable[tuple[TaskShape, Flavor]]) -> None:
        """Add all shapes that are not known yet, and score them together."""
        fresh = [pair for pair in dict(asked).items() if pair[0] not in self._index]
        known = len(self._kinds)
        for task, flavor in fresh:
            self._add(task, flavor)
        if known < len(self._kinds):
            self._tabulate()
            self._rescore_all()

    def index(self, task: TaskShape, flavor: Flavor) -> int:
        """The number of a shape, which is added on first sight."""
        number = self._index.get(task)
        if number is None:
            self._catch_up()
            known = len(self._kinds)
            number = self._add(task, flavor)
            if known < len(self._kinds):
                self._tabulate()
                self._fill(known)
        return number

    def best(self, shape: int) -> int | None:
        """The node with the highest score, the first of equals; None where the shape fits nowhere."""
        if self._seen != len(self.fleet.touched) or self._epoch != self.fleet.epoch:
            self._catch_up()
        _, scores, memory = self._lines[shape]
        if not len(scores):
            return None
        node = int(scores.argmax())
        if scores.item(node) == self.infeasible:
            return None
        if memory and self.fleet.memory_free.item(node) < memory:
            scores = self._roomy(scores, memory)
            node = int(scores.argmax())
            return node if scores.item(node) != self.infeasible else None
        return node

    def scores(self, shape: int) -> Numbers:
        """The scores of a shape on all nodes, `infeasible` where it does not fit."""
        self._catch_up()
        line = self._lines[shape]
        return self._roomy(line.scores, line.memory) if line.memory else line.scores

    def take(self, shape: int, node: int) -> tuple[int, ...]:
        """Place one task of a shape on a node that fits; the columns of its cards."""
        fleet, state, line = self.fleet, self._states[node], self._lines[shape]
        if state is None:
            state = self._find(node)
        columns, parts, after = state.steps.get(line.kind) or self._known.step(state, line.kind)
        fleet.take(node, state.cpu - after.cpu, line.memory, parts)
        if self._epoch != fleet.epoch or self._seen + 1 != len(fleet.touched):
            self._catch_up()
        else:
            self._seen += 1
            self._write(node, after)
        return columns

    def relearn(self, score: GridScore) -> None:
        """Score everything anew by another score of the same kind."""
        self._catch_up()
        self._score = score
        self._known.relearn(score)
        if self._asked:
            self._write_all([self._known.anew(state or self._find(at)) for at, state in enumerate(self._states)])

    def _add(self, task: TaskShape, flavor: Flavor) -> int:
        kind = self._kind(replace(task, memory=0) if self._by_kind else task, flavor)
        number = self._index[task] = len(self._index)
        self._lines.append(_Line(kind, self._matrix[kind], task.memory))
        return number

    def _kind(self, task: TaskShape, flavor: Flavor) -> int:
        kind = self._kinds.get(task)
        if kind is None:
            kind = self._kinds[task] = len(self._kinds)
            self._look_up(task, flavor)
            if kind >= len(self._matrix):
                room = max(64, 2 * kind)
                grown = np.full((room, len(self.fleet)), self._bounds[0], self._matrix.dtype)
                grown[:kind] = self._matrix[:kind]
                self._matrix = grown
                self._lines = [line._replace(scores=grown[line.kind]) for line in self._lines]
        return kind

    def _look_up(self, task: TaskShape, flavor: Flavor) -> None:
        question = Question(self.fleet, task, flavor)
        lasting = question.members.copy()
        for veto in self._fixed:
            lasting &= veto.allows(question, ALL_ROWS)
        self._asked.append((question, lasting))

    def _roomy(self, scores: Numbers, memory: int) -> Numbers:
        """The scores where so much memory is left, elsewhere `infeasible`."""
        return np.where(self.fleet.memory_free >= memory, scores, self._bounds[0])

    def _tabulate(self) -> None:
        """Work out what depends on the set of kinds, and forget all states."""
        self._known = States(self.fleet, self._score, self._picker, self._asked, self._base, self._bounds)
        self._states: list[State | None] = [None] * len(self.fleet)
        self._live = self._matrix[: len(self._kinds)]

    def _note_changes(self) -> None:
        fleet = self.fleet
        self._seen, self._revised, self._epoch = len(fleet.touched), len(fleet.revised), fleet.epoch

    def _rescore_all(self) -> None:
        self._note_changes()
        self._write_all([self._find(node) for node in range(len(self.fleet))])

    def _start_over(self) -> None:
        """What lasts has changed on some nodes, or the log of changes was cut."""
        asked, self._asked = self._asked, []
        self._base = capacity_codes(self.fleet)
        for question, _ in asked:
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

    def _fill(self, kind: int) -> None:
        """Score one kind on all nodes."""
        question, lasting = self._asked[kind]
        feasible = lasting.copy()
        for veto in self._passing:
            if veto.name != MEMORY:
                feasible &= veto.allows(question, ALL_ROWS)
        row = self._matrix[kind]
        row[:] = self._bounds[0]
        np.copyto(row, self._score.grid(*pairs(question, ALL_ROWS)).scores[0], "unsafe", feasible)

    def _find(self, node: int) -> State:
        if self._known.full():
            self._states = [None] * len(self.fleet)
        return self._known.find(node)

    def _write(self, node: int, state: State) -> None:
        self._states[node] = state
        self._live[:, node] = state.scores

    def _write_all(self, states: list[State]) -> None:
        self._states[:] = states
        if states:
            self._live[:] = np.array([state.scores for state in states]).T


def servable(task: TaskShape, fleet: Fleet) -> bool:
    """Whether a column can answer for the shape there: CPU, memory, whole cards and slices, nothing else."""
    if task.mode is GpuMode.MIG or any(getattr(task, name) != plain for name, plain in _UNUSUAL):
        return False
    return fleet.pods is None and fleet.zones is None and not fleet.presences.version
