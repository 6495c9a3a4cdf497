"""This module chooses a node and cards for one task at a time; every task is placed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model import EMPTY_WORKLOAD, DeviceSlice, Extended, Flavor, TaskWorkload
from scheduling.engine.model.registry import ConfigError
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.grid import GridScore, LearningScore
from scheduling.engine.placement.index.protocols import DevicePicker, ResourcePicker, Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import Selective
from scheduling.engine.placement.matrix import ScoreMatrix, can_apply_vetoes, can_use_matrix
from scheduling.engine.placement.scores.devices import CardPicker, slices_of
from scheduling.engine.state.fleet import Bools, Fleet, Ints
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.task_shape import TaskShape

# The number of cached boards; the oldest is dropped first, because it can be made again.
MAX_BOARDS = 1024


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """The plug-ins of placement: vetoes in order, weighted scores per policy, and the device picker.

    `prefer_own_nodes` is as in `NoRoomOptions`.
    """

    vetoes: tuple[Veto, ...]
    policies: tuple[tuple[str, tuple[tuple[Score, int], ...]], ...]
    devices: DevicePicker
    prefer_own_nodes: bool = True

    @property
    def learning_policies(self) -> tuple[str, ...]:
        """The policies that learn from the workload."""
        return tuple(name for name, scores in self.policies if _must_learn(scores))


class TaskPlacement(NamedTuple):
    """The placement of one task: the node, its slice of each card, and what a `ResourcePicker` adds."""

    row: int
    node: str
    slices: tuple[DeviceSlice, ...]
    columns: tuple[int, ...] = ()
    extended: tuple[Extended, ...] = ()


class Placer:
    """Chooses placements over one fleet with one rule. It holds caches only; choosing changes nothing."""

    follows_fleet = True

    def __init__(self, fleet: Fleet, rule: PlacementRule, workload: TaskWorkload = EMPTY_WORKLOAD) -> None:
        self.fleet = fleet
        self.rule = rule
        self.workload = workload
        self._resource_picker = rule.devices if isinstance(rule.devices, ResourcePicker) else None
        self._known = dict(rule.policies)
        self._scores_by_policy: dict[str, tuple[tuple[Score, int], ...]] = {}
        self._boards: dict[TaskShape, ScoreBoard] = {}
        self._matrices: dict[str, ScoreMatrix] = {}
        self._selective = {
            name: tuple(score for score, _ in scores if isinstance(score, Selective))
            for name, scores in rule.policies
        }
        self._plain: dict[TaskShape, bool] = {}
        self._judged_at = (0, 0)

    def get_board(self, task: TaskShape, flavor: Flavor) -> ScoreBoard:
        """Return the score board of a shape.

        Raises:
            ConfigError: when the flavor's policy is not configured.
        """
        board = self._boards.get(task)
        if board is None:
            scores = self._scores(task.policy)
            if scores is None:
                raise ConfigError(
                    f"flavor {flavor.id} has the policy {task.policy!r}, which is not configured"
                )
            question = Question(self.fleet, task, flavor)
            board = ScoreBoard(question, self.rule.vetoes, scores)
            while len(self._boards) >= MAX_BOARDS:
                del self._boards[next(iter(self._boards))]
            self._boards[task] = board
        return board

    def find_placement(
        self,
        task: TaskShape,
        flavor: Flavor,
        within: Bools | None = None,
        among: Callable[[Ints], int] | None = None,
    ) -> TaskPlacement | None:
        """Return the best placement of one task now, or None if no node (of the rows `within`) takes it.

        `among` chooses between equally good rows; without it the first is taken.
        """
        board = self.get_board(task, flavor)
        row = board.find_best_row(within, among if self.rule.prefer_own_nodes else None)
        if row is None:
            return None
        placement = describe_placement(self.fleet, task, row, board.choose_cards(row, self.rule.devices))
        if self._resource_picker is None:
            return placement
        return placement._replace(extended=self._resource_picker.pick_resources(board.question, row))

    def find_matrix(self, policy: str) -> ScoreMatrix | None:
        """Return the score matrix of a policy over the fleet, or None if only boards can serve it.

        A matrix needs one grid score besides preferences, vetoes that it knows, and a picker that reads cards
        alone. It serves the shapes for which `can_use_matrix` is true.

        Raises:
            ConfigError: when the policy is not configured.
        """
        score, picker = self.grid_score(policy), self.rule.devices
        if score is None or not can_apply_vetoes(self.rule.vetoes) or not isinstance(picker, CardPicker):
            return None
        matrix = self._matrices.get(policy)
        if matrix is None:
            matrix = self._matrices[policy] = ScoreMatrix(self.fleet, score, self.rule.vetoes, picker)
        matrix.replace_score(score)
        return matrix

    def drop_matrix(self, policy: str) -> None:
        """Drop the score matrix of a policy with all its shapes."""
        self._matrices.pop(policy, None)

    def can_use_matrix(self, task: TaskShape, flavor: Flavor) -> bool:
        """Return whether the matrix of a shape's policy, if any, gives the placements of its board."""
        return can_use_matrix(task, self.fleet) and self._uses_grid_score(task, flavor)

    def grid_score(self, policy: str) -> GridScore | None:
        """Return the learnt grid score of a policy that serves all shapes; None if there are several."""
        scores = self._scores(policy)
        if scores is None:
            raise ConfigError(f"there is no policy {policy!r}")
        always = [score for score, _ in scores if not isinstance(score, Selective)]
        return always[0] if len(always) == 1 and isinstance(always[0], GridScore) else None

    def _uses_grid_score(self, task: TaskShape, flavor: Flavor) -> bool:
        """Return whether the policy's grid score alone decides about a shape."""
        fleet, selective = self.fleet, self._selective.get(task.policy)
        if not selective:
            return True
        if self._judged_at != (fleet.epoch, len(fleet.revised_rows)):
            self._judged_at = fleet.epoch, len(fleet.revised_rows)
            self._plain.clear()
        known = self._plain.get(task)
        if known is None:
            question = Question(fleet, task, flavor)
            known = self._plain[task] = not any(score.applies(question) for score in selective)
        return known

    def learn_workload(self, workload: TaskWorkload, policies: Iterable[str] | None = None) -> None:
        """Let policies (None: all that learn) learn from this workload and from the present fleet.

        What was learnt before is dropped. Boards stay, and follow if something else was learnt.
        """
        self.workload = workload
        for name in self.rule.learning_policies if policies is None else policies:
            self._teach(name, _learn_scores(self._known[name], workload, self.fleet))

    def adopt_scores(self, other: Placer) -> None:
        """Use what the placer of another state of the same fleet has learnt."""
        self.workload = other.workload
        for name, scores in other._scores_by_policy.items():
            self._teach(name, scores)

    def _teach(self, name: str, scores: tuple[tuple[Score, int], ...]) -> None:
        if scores == self._scores_by_policy.get(name):
            return
        self._scores_by_policy[name] = scores
        for task, board in self._boards.items():
            if task.policy == name:
                board.replace_scores(scores)

    def _scores(self, policy: str) -> tuple[tuple[Score, int], ...] | None:
        """Return the scores of a policy, which learn at their first use: that may take a while."""
        scores = self._scores_by_policy.get(policy)
        if scores is None and policy in self._known:
            scores = self._scores_by_policy[policy] = _learn_scores(
                self._known[policy], self.workload, self.fleet
            )
        return scores


def describe_placement(fleet: Fleet, task: TaskShape, row: int, columns: tuple[int, ...]) -> TaskPlacement:
    """Return the whole placement of a task on a row, with the cards in these columns."""
    return TaskPlacement(row, fleet.nodes[row].id, slices_of(fleet, task, row, columns), columns)


def placer_for(fleet: Fleet, rule: PlacementRule) -> Placer:
    """Return the placer of a fleet and a rule, with the boards of earlier cycles of the same fleet."""
    return read_memo(fleet.memo, rule, lambda: Placer(fleet, rule))


def _must_learn(scores: tuple[tuple[Score, int], ...]) -> bool:
    return any(isinstance(score, LearningScore) for score, _ in scores)


def _learn_scores(
    scores: tuple[tuple[Score, int], ...], workload: TaskWorkload, fleet: Fleet
) -> tuple[tuple[Score, int], ...]:
    return tuple(
        (score.learn_from(workload, fleet) if isinstance(score, LearningScore) else score, weight)
        for score, weight in scores
    )
