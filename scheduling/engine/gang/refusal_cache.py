"""This module remembers shapes that found no slots, so that they are not tried again."""

from __future__ import annotations

from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.task_shape import TaskShape


class RefusalCache:
    """Shapes with the number of tasks that found no slots: this many or more need not be tried again.

    An entry holds as long as nothing is freed, so a cache belongs to one pass of one action. Queues share it,
    because what a node cannot take it cannot take from any queue.
    """

    def __init__(self) -> None:
        self._known: dict[TaskShape, tuple[int, Refusal]] = {}

    def record_refusal(self, task: TaskShape, count: int, refusal: Refusal) -> None:
        """Record that this many tasks found no slots."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            self._known[task] = (count, refusal)

    def find_refusal(self, task: TaskShape, count: int) -> Refusal | None:
        """Return the earlier refusal that covers this many tasks, with the number asked for by this job."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            return None
        return known[1].with_numbers(asked=count, limit=count)
