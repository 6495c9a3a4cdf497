"""A queue's turn in a cycle: which of its jobs is at the head, and when it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from typing import TYPE_CHECKING

from scheduling.engine.model import Job, Outcome, Queue, Reason, Strategy
from scheduling.engine.state.lines import Entry, Line

if TYPE_CHECKING:
    from scheduling.engine.session import Session


_Place = tuple[float, Entry]


@dataclass(slots=True)
class _Rank:
    """Jobs of one user that are alike, in the queue's order; those before `at` had their turn.

    `told`: what its jobs are told once their turn has come, where they are like one that waits.
    """

    user: str
    like: int
    line: Line
    at: int = 0
    told: Mapping[str, Outcome] | None = None

    @property
    def over(self) -> bool:
        """Whether all had their turn."""
        return self.at == len(self.line)


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
        self._alike: defaultdict[int, list[int]] = defaultdict(list)
        for number, rank in enumerate(self._ranks):
            self._alike[rank.like].append(number)
        # Heaps of the ranks by the place of their next job: those that are judged, and those that are told.
        # What a user used only grows within a cycle, so that no place is before the one that is noted.
        self._ahead = [(self._place(rank), number) for number, rank in enumerate(self._ranks)]
        heapify(self._ahead)
        self._passed: list[tuple[_Place, int]] = []
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

    def left(self) -> Iterator[Job]:
        """The head, and of those that are alike and had no answer yet the first: as many as may be tried,
        in the queue's order."""
        if self.head is None:
            return
        yield self.head
        coming = (item for item in self._ahead if self._ranks[item[1]].told is None)
        for place, _ in coming if self._tries_left is None else nsmallest(self._tries_left, coming):
            yield self._session.job(place[1][1])

    def first_where(self, fits: Callable[[Job], bool]) -> Job | None:
        """The first job after the head that is like no other that was judged and for which something holds;
        that is to hold for all that are alike or for none. None in a queue that starts in order alone."""
        if self.head is None or self.queue.strategy is Strategy.STRICT_FIFO:
            return None
        without, best = self._without_turn(), None
        for rank in self._ranks:
            while not rank.over and any(rank.line.entry(rank.at)[1] in those for those in without):
                rank.at += 1
            if rank.told is not None or rank.over:
                continue
            job = self._session.job(rank.line.entry(rank.at)[1])
            if fits(job) and (best is None or self._place(rank) < best[0]):
                best = self._place(rank), job
        return None if best is None else best[1]

    def bring_forward(self, job: Job) -> None:
        """Let a job that `first_where` named stand at the head; the one that stood there follows it."""
        assert self.head is not None  # noqa: S101 - it was asked for beside a head
        for number, rank in enumerate(self._ranks):
            if rank.at and rank.line.entry(rank.at - 1)[1] == self.head.id:
                rank.at -= 1
                self._stand(self._ahead, number)
        for rank in self._ranks:
            if not rank.over and rank.line.entry(rank.at)[1] == job.id:
                rank.at += 1
        self.head = job

    def _goes_on(self, job: Job, outcome: Outcome) -> bool:
        """Note that a job waits; whether the next one of its queue may be looked at."""
        # Of two like jobs the second finds other victims than the first, or nobody left to leave.
        if outcome.reason is not Reason.WAITING_FOR_PREEMPTED:
            like = self._session.likes.of(job)
            told = self._session.refusals.told(self.queue.id, like, outcome)
            if job.id in self._session.outcomes:
                self._session.outcomes[job.id] = told[job.id]
            for number in self._alike.pop(like, ()):
                self._ranks[number].told = told
                self._stand(self._passed, number)
        if self._tries_left is not None:
            self._tries_left -= 1
        # Whom a limit of their own holds up does not hold up those behind.
        blocks = self.queue.strategy is Strategy.STRICT_FIFO and outcome.reason is not Reason.POLICY_DENIED
        return not blocks and self._tries_left != 0

    def _advance(self) -> None:
        while (following := self._next()) is not None:
            place, job = following
            if any(job.id in those for those in self._without_turn()):
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

    def _next(self) -> tuple[_Place, Job] | None:
        """Take the next job that is to be judged out of its rank."""
        while self._ahead:
            noted, number = heappop(self._ahead)
            rank = self._ranks[number]
            # A rank stands here twice where its head was put back, or was brought forward.
            if rank.told is not None or rank.over:
                continue
            place = self._place(rank)
            if place > noted:
                heappush(self._ahead, (place, number))
                continue
            rank.at += 1
            self._stand(self._ahead, number)
            return place, self._session.job(place[1][1])
        return None

    def _stand(self, heap: list[tuple[_Place, int]], number: int) -> None:
        """Put a rank into a heap, if it has a next job."""
        rank = self._ranks[number]
        if not rank.over:
            heappush(heap, (self._place(rank), number))

    def _place(self, rank: _Rank) -> _Place:
        """Where the next job of a rank stands: who used less lately goes first, where that counts, and then
        it goes by the queue's order."""
        return self._session.users.load(self.queue.id, rank.user) or 0.0, rank.line.entry(rank.at)

    def _pass_over(self, until: _Place | None) -> None:
        """Answer the jobs before a place (None: all) that are like one that waits."""
        while self._passed and (until is None or self._passed[0][0] < until):
            _, number = heappop(self._passed)
            rank = self._ranks[number]
            place = self._place(rank)
            if until is None or place[0] < until[0]:
                self._tell(rank, len(rank.line))
            elif place < until:
                self._tell(rank, rank.line.before(until[1]))
            self._stand(self._passed, number)

    def _tell(self, rank: _Rank, end: int) -> None:
        """Answer the jobs of a rank up to a position."""
        told = rank.told
        if told is None:
            return
        ids = rank.line.between(rank.at, end)
        rank.at = end
        answers = dict(zip(ids, map(told.__getitem__, ids), strict=True))
        for job_id in {job_id for those in self._without_turn() for job_id in those & answers.keys()}:
            del answers[job_id]
        self._session.counters["skipped_as_equivalent"] += len(answers)
        self._session.record_alike(answers)

    def _without_turn(self) -> tuple[Set[str], ...]:
        """Jobs that have no turn: they were answered, or an earlier attempt still holds something."""
        session = self._session
        return session.outcomes.keys(), session.snapshot.holding(), self._unseen()

    def _close(self) -> None:
        self.head = None
