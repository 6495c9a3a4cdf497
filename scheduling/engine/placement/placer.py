"""Chooses a node and cards for one task at a time; the only way in which tasks get a place."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import DeviceSlice, Flavor
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.devices import slices
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.plugins.protocols import DevicePicker, Score, Veto
from scheduling.engine.plugins.registry import ConfigError
from scheduling.engine.state.fleet import Bools, Fleet

# Shapes whose boards are kept. Beyond that the one that was made first goes; it can be made again.
KEPT_BOARDS = 1024


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """The plug-ins that placement works with: vetoes in order, weighted scores per policy, cards."""

    vetoes: tuple[Veto, ...]
    policies: tuple[tuple[str, tuple[tuple[Score, int], ...]], ...]
    devices: DevicePicker


@dataclass(frozen=True, slots=True)
class Seat:
    """A place for one task: the node and its part of each card."""

    row: int
    node: str
    slices: tuple[DeviceSlice, ...]


class Placer:
    """Placement over one fleet with one rule. Holds caches only; choosing changes nothing."""

    def __init__(self, fleet: Fleet, rule: PlacementRule) -> None:
        self.fleet = fleet
        self.rule = rule
        self._policies = dict(rule.policies)
        self._boards: dict[TaskShape, Board] = {}

    def board(self, task: TaskShape, flavor: Flavor) -> Board:
        """The score board of a shape.

        Raises:
            ConfigError: when the flavor's policy is not configured.
        """
        board = self._boards.get(task)
        if board is None:
            if task.policy not in self._policies:
                raise ConfigError(
                    f"flavor {flavor.id} has the policy {task.policy!r}, which is not configured"
                )
            question = Question(self.fleet, task, flavor)
            board = Board(question, self.rule.vetoes, self._policies[task.policy])
            while len(self._boards) >= KEPT_BOARDS:
                del self._boards[next(iter(self._boards))]
            self._boards[task] = board
        return board

    def choose(self, task: TaskShape, flavor: Flavor, within: Bools | None = None) -> Seat | None:
        """The best place for one task now, or None when no node (of the rows marked `within`) takes it."""
        board = self.board(task, flavor)
        row = board.best(within)
        if row is None:
            return None
        columns = self.rule.devices.pick(board.question, row) if task.cards else ()
        return Seat(row, self.fleet.nodes[row].id, slices(board.question, row, columns))


def placer_for(fleet: Fleet, rule: PlacementRule) -> Placer:
    """The placer of a fleet and a rule, with the boards of earlier cycles while the fleet lives."""
    known = fleet.memo.get(rule)
    if not isinstance(known, Placer):
        known = fleet.memo[rule] = Placer(fleet, rule)
    return known
