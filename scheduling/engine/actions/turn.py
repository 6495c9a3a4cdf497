"""A queue's turn in a cycle: which of its jobs is at the head, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from scheduling.engine.model import Job, JobState, Outcome, Queue, Reason, Strategy

if TYPE_CHECKING:
    from scheduling.engine.session import Session


class Turn:
    """One queue's place in the round: whose turn it is, and when the queue is done for this cycle."""

    def __init__(
        self,
        session: Session,
        queue: Queue,
        leaves: Callable[[str], bool] = lambda job_id: False,
        foregone: Callable[[Job], Outcome | None] = lambda job: None,
    ) -> None:
        """`leaves` says of a job whether tasks of an earlier attempt still hold something unseen, `foregone`
        gives the answer of one that cannot start whoever goes before it: it never comes to the head."""
        self.queue = queue
        self._leaves = leaves
        self._foregone = foregone
        self._session = session
        self._jobs = self._eligible()
        self._failed: dict[int, Outcome] = {}
        self._tries_left = session.config.heads_per_queue
        self.head: Job | None = None
        self._advance()

    def admitted(self) -> None:
        """The head has started: the next one follows, where the configuration refills."""
        if self._session.config.refill:
            self._advance()
        else:
            self._close()

    def failed(self, outcome: Outcome) -> None:
        """The head waits: it blocks a strict queue, and its like are not tried again."""
        if self.head is not None and self._goes_on(self.head, outcome):
            self._advance()
        else:
            self._close()

    def _goes_on(self, job: Job, outcome: Outcome) -> bool:
        """Note that a job waits; whether the next one of its queue may be looked at."""
        # Of two like jobs the second finds other victims than the first, or nobody left to leave.
        if outcome.reason is not Reason.WAITING_FOR_PREEMPTED:
            like = self._session.likes.of(job)
            self._failed[like] = self._session.refusals.same(self.queue.id, like, outcome)
        if self._tries_left is not None:
            self._tries_left -= 1
        # Whom a limit of their own holds up does not hold up those behind.
        blocks = self.queue.strategy is Strategy.STRICT_FIFO and outcome.reason is not Reason.POLICY_DENIED
        return not blocks and self._tries_left != 0

    def _eligible(self) -> Iterator[Job]:
        now, outcomes = self._session.now, self._session.outcomes
        holds, leaves = self._session.snapshot.holds, self._leaves
        for job in self._session.in_turn(self.queue):
            if job.state is not JobState.QUEUED or job.id in outcomes:
                continue
            ready = job.backoff_until is None or job.backoff_until <= now
            # A job that changed while the snapshot was taken may have come without its roles.
            if ready and job.roles and not holds(job.id) and not leaves(job.id):
                yield job

    def _advance(self) -> None:
        failed, number, outcomes = self._failed, self._session.likes.of, self._session.outcomes
        for job in self._jobs:
            like = failed.get(number(job)) if failed else None
            if like is None:
                answer = self._foregone(job)
                if answer is None:
                    self.head = job
                    return
                if not self._goes_on(job, answer):
                    break
                continue
            self._session.counters["skipped_as_equivalent"] += 1
            outcomes[job.id] = self._told(job.id, like)
        self._close()

    def _told(self, job_id: str, like: Outcome) -> Outcome:
        """The answer of a job that is like one that waits."""
        told = self._session.refusals.told
        known = told.get(job_id)
        if known is None or known.numbers is not like.numbers or known.help is not like.help:
            # As often as there are jobs: `replace` takes three times as long.
            known = told[job_id] = Outcome(
                job=job_id, status=like.status, reason=like.reason, numbers=like.numbers, help=like.help
            )
        return known

    def _close(self) -> None:
        self.head = None
