"""What is known to be full, so that it is not tried again."""

from __future__ import annotations

from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.shape import TaskShape


class RefusalCache:
    """Shapes for which there was no room: so many tasks, or more, need not be tried again.

    Holds as long as nothing is freed, which is why it belongs to one run of one action. Queues share
    it: what a node cannot take it cannot take from anyone.
    """

    def __init__(self) -> None:
        self._known: dict[TaskShape, tuple[int, Refusal]] = {}

    def record_refusal(self, task: TaskShape, count: int, refusal: Refusal) -> None:
        """So many tasks found no room."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            self._known[task] = (count, refusal)

    def find_refusal(self, task: TaskShape, count: int) -> Refusal | None:
        """The earlier refusal that covers so many tasks, with this job's own numbers asked."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            return None
        return known[1].but(asked=count, limit=count)
