"""Which cards of a node a task gets."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from scheduling.engine.model import DeviceSlice
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import Bools, Fleet


@runtime_checkable
class CardPicker(Protocol):
    """A device picker that looks at nothing but what is left on the cards of the node.

    So its answer holds for every node with cards alike, and may be remembered.
    """

    name: str

    def of_fitting(self, question: Question, row: int, fitting: Bools) -> tuple[int, ...]:
        """The columns of the cards, out of those marked as fitting."""
        ...


class BestFitDevices:
    """The cards with the least left that still fit: cores first, then memory, then the lower index.

    For whole cards every candidate is empty, so the lowest indexes are taken.
    """

    name = "best-fit"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """The columns of the best cards of a row that fits."""
        return self.of_fitting(question, row, question.fitting(slice(row, row + 1))[0])

    def of_fitting(self, question: Question, row: int, fitting: Bools) -> tuple[int, ...]:
        """The columns of the best cards among those that fit."""
        columns: list[int] = np.flatnonzero(fitting).tolist()
        task, fleet = question.task, question.fleet
        if task.whole or len(columns) <= task.cards:
            return tuple(columns[: task.cards])
        left, memory = fleet.cores_free[row].tolist(), fleet.card_memory_free[row].tolist()
        columns.sort(key=lambda column: (left[column], memory[column]))
        return tuple(sorted(columns[: task.cards]))


def slices(fleet: Fleet, task: TaskShape, row: int, columns: tuple[int, ...]) -> tuple[DeviceSlice, ...]:
    """What the task holds on each of the cards: its part, or all that the card has."""
    held = []
    for column in columns:
        device = fleet.device(row, column)
        cores, memory = (device.cores, device.memory) if task.whole else (task.cores, task.card_memory)
        held.append(DeviceSlice(device.uuid, cores, memory, task.whole))
    return tuple(held)


DEVICE_PICKERS = (BestFitDevices(),)
