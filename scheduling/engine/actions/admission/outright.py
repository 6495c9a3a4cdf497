"""Jobs for which there is room at this moment: how they would stand later need not be asked first.

Whoever fits beside all that is still there fits as well once some of them have left. That holds where room is
counted, where a flavor that fits is taken whatever others would give, and for one size.
"""

from __future__ import annotations

from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import Job, Preference, Queue, WhenCan
from scheduling.engine.placement.board import Board
from scheduling.engine.session.session import Session


class Outright:
    """Tells of jobs of one session whether they may start at once; made while the present is shown."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bounds = SlotBounds(session.snapshot, session.placer, session.equivalence)
        # For how many tasks of a shape there was no room; at present nothing is freed within a cycle.
        self._full: dict[Board, int] = {}

    def has_room(self, queue: Queue, job: Job) -> bool:
        """Whether a job that could start now could start later too, and there is room for it now.

        The snapshot must show the present.
        """
        if not self._plain(queue, job):
            return False
        _, wanted = self._bounds.find_missing(queue, job)
        return wanted is not None and any(self._fit(*each) for each in wanted)

    def may_find_room(self, queue: Queue, job: Job) -> bool:
        """False where counting tells that no flavor of the queue has room for a job now.

        The snapshot must show the present.
        """
        _, wanted = self._bounds.find_missing(queue, job)
        return wanted is None or any(self._fit(*each) for each in wanted)

    def _fit(self, board: Board, needed: int) -> bool:
        full = self._full.get(board)
        if full is not None and needed >= full:
            return False
        if self._bounds.count_slots(board, needed) >= needed:
            return True
        self._full[board] = needed
        return False

    def _plain(self, queue: Queue, job: Job) -> bool:
        rules = queue.fungibility
        takes_what_fits = (
            rules.when_can_preempt is not WhenCan.MAY_STOP_SEARCH
            and rules.preference is Preference.BORROWING_OVER_PREEMPTION
            and self._session.config.room.other_flavors
        )
        limited = job.allowances or job.barred or job.replaces
        return takes_what_fits and not limited and all(role.least == role.replicas for role in job.roles)
