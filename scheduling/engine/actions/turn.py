"""A queue's turn in a cycle: which of its jobs is at the head, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduling.engine.model import Job, Outcome, Queue, Reason, Strategy
from scheduling.engine.state.lines import Entry, Line

if TYPE_CHECKING:
    from scheduling.engine.session import Session


_Place = tuple[float, Entry]


@dataclass(slots=True)
class _Rank:
    """Jobs of one user that are alike, in the queue's order; those before `at` had their turn."""

    user: str
    like: int
    line: Line
    at: int = 0


class Turn:
    """One queue's place in the round: whose turn it is, and when the queue is done for this cycle."""

    def __init__(
        self,
        session: Session,
        queue: Queue,
        unseen: Callable[[], Set[str]] = frozenset,
        foregone: Callable[[Job], Outcome | None] = lambda job: None,
    ) -> None:
        """`unseen` are the jobs of which tasks of an earlier attempt still hold something that is not shown,
        `foregone` gives the answer of one that cannot start whoever goes before it: it never comes to the
        head."""
        self.queue = queue
        self._unseen = unseen
        self._foregone = foregone
        self._session = session
        self._ranks = [
            _Rank(kind.user, kind.like, line)
            for kind, line in session.ranks(queue).items()
            if kind.ready_at is None or kind.ready_at <= session.now
        ]
        # Ranks of jobs like one that waits, with what they are told once their turn has come.
        self._passed: list[tuple[_Rank, Mapping[str, Outcome]]] = []
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
            told = self._session.refusals.told(self.queue.id, like, outcome)
            self._passed += ((rank, told) for rank in self._ranks if rank.like == like)
            self._ranks = [rank for rank in self._ranks if rank.like != like]
        if self._tries_left is not None:
            self._tries_left -= 1
        # Whom a limit of their own holds up does not hold up those behind.
        blocks = self.queue.strategy is Strategy.STRICT_FIFO and outcome.reason is not Reason.POLICY_DENIED
        return not blocks and self._tries_left != 0

    def _advance(self) -> None:
        while (first := min(self._places(), default=None)) is not None:
            place, rank = first[0], self._ranks[first[1]]
            rank.at += 1
            job = self._session.job(place[1][1])
            if self._odd({job.id}):
                continue
            answer = self._foregone(job)
            if answer is None:
                self._pass_over(place)
                self.head = job
                return
            if not self._goes_on(job, answer):
                self._pass_over(place)
                self._close()
                return
        self._pass_over(None)
        self._close()

    def _places(self) -> Iterator[tuple[_Place, int]]:
        """Where the next job of each rank stands: who used less goes first, and then by the queue's order."""
        for number, rank in enumerate(self._ranks):
            if rank.at < len(rank.line):
                yield (self._used(rank), rank.line.entry(rank.at)), number

    def _used(self, rank: _Rank) -> float:
        """What the user of a rank used lately, where it counts."""
        return self._session.users.load(self.queue.id, rank.user) or 0.0

    def _pass_over(self, place: _Place | None) -> None:
        """Answer the jobs before a place (None: all) that are like one that waits."""
        for rank, told in self._passed:
            end = len(rank.line)
            if place is not None and (used := self._used(rank)) >= place[0]:
                end = max(rank.at, rank.line.before(place[1])) if used == place[0] else rank.at
            ids = rank.line.between(rank.at, end)
            rank.at = end
            answers = dict(zip(ids, map(told.__getitem__, ids), strict=True))
            for job_id in self._odd(answers.keys()):
                del answers[job_id]
            self._session.counters["skipped_as_equivalent"] += len(answers)
            self._session.outcomes.update(answers)

    def _odd(self, ids: Set[str]) -> Set[str]:
        """Those of some jobs that have no turn: they were answered, or an earlier attempt still holds
        something."""
        session = self._session
        known: tuple[Set[str], ...] = (session.outcomes.keys(), session.snapshot.holding(), self._unseen())
        return {job_id for part in known for job_id in part & ids}

    def _close(self) -> None:
        self.head = None
