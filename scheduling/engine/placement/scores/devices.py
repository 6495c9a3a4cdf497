"""This module chooses the cards of a node for a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from scheduling.engine.model import DeviceSlice
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.row import RowState
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape, device_share_of


@runtime_checkable
class CardPicker(Protocol):
    """A device picker that reads nothing but the free amounts of the node's cards.

    Its choice therefore holds for every node with equal cards, and may be cached.
    """

    name: str

    def choose_among(
        self, task: TaskShape, fitting: list[int], left: Sequence[int], memory: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the chosen columns out of those that fit, by the free core units and MiB of each card."""
        ...


class BestFitDevices:
    """Chooses the cards with the least left that still fit: cores first, then memory, then the lower index.

    For whole cards every candidate is empty, so the lowest indexes are taken.
    """

    name = "best-fit"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """Return the columns of the best cards of a row that fits."""
        fleet = question.fleet
        if question.task.derived:
            fitting: list[int] = np.flatnonzero(question.fitting(slice(row, row + 1))[0]).tolist()
        else:
            fitting = RowState(question, row).fitting_columns()
        left, memory = fleet.cores_free[row].tolist(), fleet.card_memory_free[row].tolist()
        return self.choose_among(question.task, fitting, left, memory)

    def choose_among(
        self, task: TaskShape, fitting: list[int], left: Sequence[int], memory: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the columns of the best cards among those that fit."""
        if task.whole or len(fitting) <= task.cards:
            return tuple(fitting[: task.cards])
        if task.cards == 1:
            return (min([(left[column], memory[column], column) for column in fitting])[2],)
        best = sorted([(left[column], memory[column], column) for column in fitting])
        return tuple(sorted([column for _, _, column in best[: task.cards]]))


def slices_of(fleet: Fleet, task: TaskShape, row: int, columns: tuple[int, ...]) -> tuple[DeviceSlice, ...]:
    """Return what the task holds of each of the cards: its part, or all that the card has."""
    held = []
    for column in columns:
        device = fleet.device_at(row, column)
        held.append(DeviceSlice(device.uuid, *device_share_of(task, device), task.whole))
    return tuple(held)


DEVICE_PICKERS = (BestFitDevices(),)
