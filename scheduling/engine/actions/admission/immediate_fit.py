"""This module decides by counting whether a job fits in the present state, so that the future view need not
be evaluated first.

A job that fits beside all running tasks also fits once some of them have ended. That holds where slots are
counted, where a flavor that fits is taken whatever preemption would yield, and for jobs of one size.
"""

from __future__ import annotations

from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import Job, Preference, Queue, WhenCan
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

    def has_room(self, queue: Queue, job: Job) -> bool:
        """Return whether a job that can start now could start later too, and has slots now.

        The snapshot must show the present state.
        """
        if not self._takes_first_fit(queue, job):
            return False
        _, wanted = self._bounds.find_missing(queue, job)
        return wanted is not None and any(self._has_slots(*each) for each in wanted)

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

    def _takes_first_fit(self, queue: Queue, job: Job) -> bool:
        rules = queue.fungibility
        takes_what_fits = (
            rules.when_can_preempt is not WhenCan.MAY_STOP_SEARCH
            and rules.preference is Preference.BORROWING_OVER_PREEMPTION
            and self._session.config.no_room.try_other_flavors
        )
        limited = job.allowances or job.barred or job.replaces
        return takes_what_fits and not limited and all(role.min_count == role.replicas for role in job.roles)
