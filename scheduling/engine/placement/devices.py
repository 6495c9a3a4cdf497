"""Which cards of a node a task gets."""

from __future__ import annotations

import numpy as np

from scheduling.engine.model import DeviceSlice
from scheduling.engine.placement.question import Question


class BestFitDevices:
    """The cards with the least left that still fit: cores first, then memory, then the lower index.

    For whole cards every candidate is empty, so the lowest indexes are taken.
    """

    name = "best-fit"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        at = slice(row, row + 1)
        columns = np.flatnonzero(question.fitting(at)[0])
        if not question.task.whole and len(columns) > question.task.cards:
            fleet = question.fleet
            order = np.lexsort(
                (columns, fleet.card_memory_free[row, columns], fleet.cores_free[row, columns])
            )
            columns = columns[order]
        return tuple(sorted(columns[: question.task.cards].tolist()))


def slices(question: Question, row: int, columns: tuple[int, ...]) -> tuple[DeviceSlice, ...]:
    """What the task holds on each of the cards: its part, or all that the card has."""
    task = question.task
    held = []
    for column in columns:
        device = question.fleet.device(row, column)
        cores, memory = (device.cores, device.memory) if task.whole else (task.cores, task.card_memory)
        held.append(DeviceSlice(device.uuid, cores, memory, task.whole))
    return tuple(held)


DEVICE_PICKERS = (BestFitDevices(),)
