"""This module decides by counting whether a job may fit in the present state, without evaluating it."""

from __future__ import annotations

from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import Job, Queue
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.session.session import Session


class ImmediateFit:
    """Counts slots for the jobs of one session; it is created while the present state is shown."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bounds = SlotBounds(session.snapshot, session.placer, session.equivalence)
        # The number of tasks of a shape that found no slots; in the present state nothing is released within
        # a cycle.
        self._refused_counts: dict[ScoreBoard, int] = {}

    def may_find_room(self, queue: Queue, job: Job) -> bool:
        """Return False if no flavor of the queue has enough slots for a job now.

        The snapshot must show the present state.
        """
        _, wanted = self._bounds.find_missing(queue, job)
        return wanted is None or any(self._has_slots(*each) for each in wanted)

    def _has_slots(self, board: ScoreBoard, needed: int) -> bool:
        refused_count = self._refused_counts.get(board)
        if refused_count is not None and needed >= refused_count:
            return False
        if self._bounds.count_slots(board, needed) >= needed:
            return True
        self._refused_counts[board] = needed
        return False
