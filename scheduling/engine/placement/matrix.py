"""This module keeps the scores of every known shape on every node under one policy, always up to date.

Rows of the matrix are shapes, columns are nodes in (rank, id) order, so the first maximum of a row is the
best node with its tie rule. A placement changes one node; its column is then scored again for all shapes in
one call. Nodes of one type with equal free amounts share a *state*, for which the column is computed once; so
is the step from a state to the next by a placement of a shape. This pays where many tasks of many shapes are
placed one after the other, in a packing run or in a cycle; a board serves few tasks and any veto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

import numpy as np

from scheduling.engine.model import Flavor, GpuMode
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.index.grid import GridScore, Numbers, tables_for
from scheduling.engine.placement.index.limits import LEAST, ScoreLimits
from scheduling.engine.placement.index.node_types import capacity_codes
from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import select_relevant
from scheduling.engine.placement.scores.devices import CardPicker
from scheduling.engine.placement.states import State, States, Step
from scheduling.engine.state.fleet import ALL_ROWS, Bools, CardUsages, Fleet, Ints
from scheduling.engine.state.task_shape import TaskShape

# The passing vetoes that a column applies. The engine's others concern requests that `can_use_matrix`
# excludes.
APPLIED = ("pods", "cpu", "memory", "card-cores", "card-memory")
# The fields that a shape may set; every other one must have its default.
USUAL = (
    "flavor", "policy", "cpu", "memory", "cards", "mode", "cores", "card_memory", "models", "whole",
    "node_name", "selector", "affinity", "tolerations", "qos", "preferences",
)  # fmt: skip
# One shape in this many is cheaper to score by itself than together with all others.
FEW = 4
# The free memory of a node that takes no more tasks: too little even for a shape that asks for none.
NO_ROOM = LEAST - 1
_UNUSUAL = tuple((entry.name, entry.default) for entry in fields(TaskShape) if entry.name not in USUAL)


def can_apply_vetoes(vetoes: Iterable[Veto]) -> bool:
    """Return whether a matrix can apply these vetoes: the engine's own, and any others that are lasting.

    It needs all of those that it applies itself.
    """
    vetoes = tuple(vetoes)
    return all(veto.fixed or veto in VETOES for veto in vetoes) and all(
        veto in vetoes for veto in VETOES if veto.name in APPLIED
    )


class ScoreMatrix:
    """The scores of shapes on the nodes of a fleet under one policy.

    A shape lives as long as the matrix. Shapes that are known in advance should be added together
    (`add_shapes`), because each new one makes the matrix drop its states.

    To place a task, `choose_cards` is called before the fleet follows and `follow_placement` after, so that
    the node is not scored again from the fleet.
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
        self._bounds = score.dtype.type(floor), score.dtype.type(highest)
        self.infeasible = self._bounds[0].item()
        self._matrix: Numbers = np.full((0, len(fleet)), floor, score.dtype)
        self._index: dict[TaskShape, int] = {}
        self._asked: list[tuple[Question, Bools]] = []
        self._base = capacity_codes(fleet)
        self._next: tuple[int, Step] | None = None
        self._read_free_amounts()
        self._seen, self._revised, self._epoch = len(fleet.changed_rows), len(fleet.revised_rows), fleet.epoch
        self._tabulate()

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, task: TaskShape) -> bool:
        return task in self._index

    def add_shapes(self, asked: Iterable[tuple[TaskShape, Flavor]]) -> None:
        """Add all shapes that are not known yet, and score them together."""
        fresh = [pair for pair in dict(asked).items() if pair[0] not in self._index]
        self.follow_fleet()
        added = [self._add(task, flavor) for task, flavor in fresh]
        if not added:
            return
        self._tabulate()
        if FEW * len(added) > len(self._index):
            self._rescore_all()
        else:
            for shape in added:
                self._fill(shape)

    def ensure_shape(self, task: TaskShape, flavor: Flavor) -> int:
        """Return the row of a shape; an unknown one is added."""
        known = self._index.get(task)
        if known is None:
            self.follow_fleet()
            known = self._add(task, flavor)
            self._tabulate()
            self._fill(known)
        return known

    def find_best_node(self, shape: int, among: Callable[[Ints], int] | None = None) -> int | None:
        """Return the node with the highest score; None if the shape fits nowhere.

        `among` chooses between equally good nodes; without it the first is taken.
        """
        fleet = self.fleet
        if self._seen != len(fleet.changed_rows) or self._epoch != fleet.epoch:
            self.follow_fleet()
        scores = self._rows[shape]
        if not len(scores):
            return None
        node = int(scores.argmax())
        best = scores.item(node)
        if best == self.infeasible:
            return None
        if among is None:
            return node
        equals = np.flatnonzero(scores == best)
        return node if len(equals) == 1 else among(equals)

    def scores_of(self, shape: int) -> Numbers:
        """Return the scores of a shape on all nodes, `infeasible` where it does not fit. `[nodes]`."""
        self.follow_fleet()
        return self._rows[shape]

    def place_task(self, shape: int, node: int) -> tuple[int, ...]:
        """Place one task of a shape on a node that fits, and return the columns of its cards."""
        columns, parts = self.choose_cards(shape, node)
        task = self._tasks[shape]
        self.fleet.change_usage(node, task.cpu, task.memory, parts)
        self.follow_placement(shape)
        return columns

    def choose_cards(self, shape: int, node: int) -> tuple[tuple[int, ...], CardUsages]:
        """Return the columns of the cards that a task of a shape gets on a node that fits, and its parts of
        them."""
        step = self._known.take_step(self._states[node] or self._find(node), shape)
        self._next = node, step
        return step[0], step[1]

    def follow_placement(self, shape: int) -> None:
        """Follow the fleet, to which the task was added for which `choose_cards` was called last."""
        fleet = self.fleet
        if self._next is None or self._epoch != fleet.epoch:
            return
        node, (_, _, after) = self._next
        # Otherwise more has changed, and every changed node is scored again when the matrix is read.
        if fleet.changed_rows[self._seen :] == [node]:
            self._seen += 1
            self._take(node, shape)
            self._write(node, after)

    def follow_fleet(self) -> None:
        """Score nodes again that were changed meanwhile."""
        fleet = self.fleet
        changed = fleet.changed_rows[self._seen :]
        if self._epoch != fleet.epoch or self._revised != len(fleet.revised_rows):
            self._start_over()
            return
        self._seen = len(fleet.changed_rows)
        for node in sorted(set(changed)):
            state = self._find(node)
            self._free[node] = self._free_memory(node)
            self._write(node, state)

    def replace_score(self, score: GridScore) -> None:
        """Score everything again if this is another score than before; it is of the same kind."""
        if score == self._score:
            return
        self.follow_fleet()
        self._score = score
        self._known.replace_score(score)
        if self._asked:
            states = enumerate(self._states)
            self._write_all([self._known.renew_state(state or self._find(node)) for node, state in states])

    def _add(self, task: TaskShape, flavor: Flavor) -> int:
        index = self._index[task] = len(self._index)
        self._look_up(task, flavor)
        if index >= len(self._matrix):
            room = max(64, 2 * index)
            grown = np.full((room, len(self.fleet)), self._bounds[0], self._matrix.dtype)
            grown[:index] = self._matrix[:index]
            self._matrix = grown
        return index

    def _look_up(self, task: TaskShape, flavor: Flavor) -> None:
        question = Question(self.fleet, task, flavor)
        lasting = question.members.copy()
        for veto in select_relevant(self._fixed, question):
            lasting &= veto.allows(question, ALL_ROWS)
        self._asked.append((question, lasting))

    def _tabulate(self) -> None:
        """Compute what depends on the set of shapes, and drop all states."""
        self._tasks = list(self._index)
        self._memory = [task.memory for task in self._tasks]
        cpu = [task.cpu for task in self._tasks]
        self._limits = ScoreLimits(np.array(cpu, np.int64), np.array(self._memory, np.int64), self._bounds)
        self._known = States(self.fleet, self._score, self._picker, self._asked, self._base, self._limits)
        self._states: list[State | None] = [None] * len(self.fleet)
        self._live = self._matrix[: len(self._index)]
        self._rows: list[Numbers] = list(self._live)
        self._at: list[Numbers] = list(self._live.T)

    def _rescore_all(self) -> None:
        fleet = self.fleet
        self._seen, self._revised, self._epoch = len(fleet.changed_rows), len(fleet.revised_rows), fleet.epoch
        self._write_all([self._find(node) for node in range(len(fleet))])

    def _start_over(self) -> None:
        """Rebuild everything after lasting facts of nodes changed, or the log of changes was cut."""
        asked, self._asked = self._asked, []
        self._base = capacity_codes(self.fleet)
        for question, _ in asked:
            self._look_up(question.task, question.flavor)
        self._tabulate()
        self._rescore_all()

    def _fill(self, shape: int) -> None:
        """Score one shape on all nodes."""
        question, lasting = self._asked[shape]
        feasible = lasting.copy()
        for veto in select_relevant(self._passing, question):
            feasible &= veto.allows(question, ALL_ROWS)
        row = self._rows[shape]
        row[:] = self._bounds[0]
        np.copyto(row, self._score.score_grid(*tables_for(question, ALL_ROWS)).scores[0], "unsafe", feasible)

    def _find(self, node: int) -> State:
        if self._known.is_full():
            self._states = [None] * len(self.fleet)
        return self._known.find_state(node)

    def _write(self, node: int, state: State) -> None:
        self._states[node] = state
        limit = self._limits.limits_for(state.base, self._free[node])
        np.minimum(state.scores, limit, out=self._at[node])

    def _take(self, node: int, shape: int) -> None:
        """Take what a placed task leaves no more: memory, and one of the tasks that the node may have."""
        self._free[node] -= self._memory[shape]
        if self._slots is not None:
            self._slots[node] -= 1
            if self._slots[node] < 1:
                self._free[node] = NO_ROOM

    def _free_memory(self, node: int) -> int:
        """Return the free memory of a node, `NO_ROOM` if it takes no more tasks whatever they ask for."""
        fleet = self.fleet
        if self._slots is not None and fleet.pods is not None:
            self._slots[node] = fleet.pods.item(node) - fleet.used_pods.item(node)
            if self._slots[node] < 1:
                return NO_ROOM
        return fleet.memory_free.item(node)

    def _read_free_amounts(self) -> None:
        self._slots: list[int] | None = None if self.fleet.pods is None else [0] * len(self.fleet)
        self._free = [self._free_memory(node) for node in range(len(self.fleet))]

    def _write_all(self, states: list[State]) -> None:
        self._states[:] = states
        self._read_free_amounts()
        if states:
            left = zip(states, self._free, strict=True)
            limits = np.array([self._limits.limits_for(state.base, memory) for state, memory in left])
            self._live[:] = np.minimum(np.array([state.scores for state in states]), limits).T


def can_use_matrix(task: TaskShape, fleet: Fleet) -> bool:
    """Return whether a column can serve the shape: CPU, memory, whole cards and slices, nothing else."""
    if task.mode is GpuMode.MIG or any(getattr(task, name) != plain for name, plain in _UNUSUAL):
        return False
    return not fleet.pod_index.version
