"""KAI's plug-in gpuspread as a device picker of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from scheduling.engine import BUILTIN, PluginSet, Question


class SpreadDevices:
    """Chooses the cards with the most free cores, then the most free memory, then the lower index."""

    name = "spread"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """Return the columns of the emptiest cards of a row that fits the task."""
        fleet, task = question.fleet, question.task
        fitting: list[int] = np.flatnonzero(question.fitting(slice(row, row + 1))[0]).tolist()
        left, memory = fleet.cores_free[row].tolist(), fleet.card_memory_free[row].tolist()
        if not task.whole:
            fitting = sorted(fitting, key=lambda column: (-left[column], -memory[column], column))
        return tuple(sorted(fitting[: task.cards]))


PLUGINS: Final[PluginSet] = replace(
    BUILTIN, device_pickers=BUILTIN.device_pickers.with_plugins(SpreadDevices())
)
"""The plug-ins for KAI's cases."""
