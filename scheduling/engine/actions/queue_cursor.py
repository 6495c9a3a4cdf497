"""A queue's turn in a cycle: which of its jobs is at the head, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Protocol

from scheduling.engine.model import Job, Outcome, Queue, Reason, Strategy
from scheduling.engine.session.queue_classes import ClassKey
from scheduling.engine.session.session import Session
from scheduling.engine.state.lines import Entry, Line

_Place = tuple[float, Entry]


@dataclass(slots=True)
class _Rank:
    """Jobs of one user that are alike, in the queue's order; those before `at` had their turn.

    `answers_for`: what its jobs are told once their turn has come, where they are like one that waits.
    `leads` is whether the ranks of its user that come after it are still left out.
    """

    kind: ClassKey
    line: Line
    at: int = 0
    told: Mapping[str, Outcome] | None = None
    leads: bool = False

    @property
    def over(self) -> bool:
        """Whether all had their turn."""
        return self.at == len(self.line)


@dataclass(slots=True)
class _Reached:
    """How far down the ranks of one user a round has come: those before `at` take part, and those before
    `seen` do so as well or are known to be none that is looked for."""

    at: int = 0
    seen: int = 0


class SoughtProperty(Protocol):
    """A property of jobs that all that are alike have, or none; it may come and go within a cycle."""

    def refresh(self) -> bool:
        """Look at how things stand; whether some jobs may have it that never had it before."""

    def may_ever_hold(self, job: Job) -> bool:
        """Whether a job has it, or may have had it at an earlier look."""

    def holds_now(self, job: Job) -> bool:
        """Whether a job has it as things stand."""


class QueueCursor:
    """One queue's place in the round: whose turn it is, and when the queue is done for this cycle.

    Of the ranks of each user only those take part that have a job at the head or are the next to have one:
    of thousands that differ a cycle tries a few.
    """

    def __init__(
        self,
        session: Session,
        queue: Queue,
        hidden_jobs: Callable[[], Set[str]] = frozenset,
        find_precluded: Callable[[Job], Outcome | None] = lambda job: None,
    ) -> None:
        """`hidden_jobs` are the jobs of which tasks of an earlier attempt still hold something that is not
        shown,
        `find_precluded` gives the answer of one that cannot start whoever goes before it: it never comes to
        the head."""
        self.queue = queue
        self._unseen = hidden_jobs
        self._foregone = find_precluded
        self._session = session
        self._known = session.queue_classes(queue)
        self._ranks: list[_Rank] = []
        # Ranks that take part, by number. Those that are over drop out of `_open`.
        self._number: dict[ClassKey, int] = {}
        self._open: dict[int, _Rank] = {}
        self._answered: set[int] = set()
        # Heaps of the ranks by the place of their next job: those that are judged, and those that are told.
        # What a user used only grows within a cycle, so that no place is before the one that is noted.
        self._ahead: list[tuple[_Place, int]] = []
        self._passed: list[tuple[_Place, int]] = []
        self._users = {user: _Reached() for user in self._known.by_user}
        for user in self._users:
            self._bring(user)
        self._tries_left = session.config.heads_per_queue
        self.head: Job | None = None
        # The rank of the head and its place there, and the rank of the job that was last sought.
        self._from: tuple[int, int] = (0, 0)
        self._found = 0
        self._advance()

    def advance_after_admission(self) -> None:
        """The head has started: the next one follows, where the configuration refills."""
        if self._session.config.refill:
            self._advance()
        else:
            self._close()

    def advance_after_refusal(self, outcome: Outcome) -> None:
        """The head waits: it blocks a strict queue, and its like are not tried again."""
        if self.head is not None and self._goes_on(self.head, outcome):
            self._advance()
        else:
            self._close()

    def remaining_candidates(self) -> Iterator[Job]:
        """The head, and of those that are alike and had no answer yet the first: as many as may be tried,
        in the queue's order."""
        if self.head is None:
            return
        yield self.head
        begun = sorted(place for place, number in self._ahead if self._ranks[number].told is None)
        coming = merge(begun, *map(self._behind, self._users))
        for _, (_, job_id) in islice(coming, self._tries_left):
            yield self._session.get_job(job_id)

    def find_first_with(self, sought: SoughtProperty) -> Job | None:
        """The first job after the head that is like no other that was judged and has what is sought. None in
        a queue that starts in order alone."""
        if self.head is None or self.queue.strategy is Strategy.STRICT_FIFO:
            return None
        if sought.refresh():
            for reached in self._users.values():
                reached.seen = reached.at
        for user in self._users:
            self._seek(user, sought)
        best: tuple[_Place, int] | None = None
        without = self._without_turn()
        for number, rank in tuple(self._open.items()):
            if rank.told is not None:
                del self._open[number]
                continue
            while not rank.over and any(rank.line.at(rank.at) in those for those in without):
                rank.at += 1
            if rank.over:
                del self._open[number]
            elif sought.holds_now(self._session.get_job(rank.line.at(rank.at))):
                place = self._place(rank), number
                best = place if best is None else min(best, place)
        if best is None:
            return None
        (_, (_, job_id)), self._found = best
        return self._session.get_job(job_id)

    def promote_job(self, job: Job) -> None:
        """Let the job that `find_first_with` named last stand at the head; the one that stood there
        follows."""
        assert self.head is not None  # noqa: S101 - it was asked for beside a head
        number, at = self._from
        self._ranks[number].at = at
        self._open[number] = self._ranks[number]
        self._stand(self._ahead, number)
        rank = self._ranks[self._found]
        self._from = self._found, rank.at
        rank.at += 1
        self.head = job

    # Which ranks take part

    def _bring(self, user: str) -> None:
        """Let the next rank of a user take part, once the one before it has come to the head."""
        reached, ranks = self._users[user], self._known.by_user[user]
        while reached.at < len(ranks):
            kind = ranks[reached.at][1]
            reached.at += 1
            if self._is_ready(kind) and kind not in self._number:
                self._ranks[self._take_in(kind)].leads = True
                return

    def _take_in(self, kind: ClassKey) -> int:
        """Let a rank take part, if it does not yet; its number."""
        number = self._number.get(kind)
        if number is None:
            number = self._number[kind] = len(self._ranks)
            self._ranks.append(_Rank(kind, self._known.lines[kind]))
            self._open[number] = self._ranks[number]
            self._stand(self._ahead, number)
        return number

    def _seek(self, user: str, sought: SoughtProperty) -> None:
        """Take in the first rank of a user that has what is sought and does not take part yet."""
        reached, ranks = self._users[user], self._known.by_user[user]
        without, jobs = self._without_turn(), self._session.snapshot.jobs
        reached.seen = max(reached.seen, reached.at)
        for place in range(reached.seen, len(ranks)):
            (_, job_id), kind = ranks[place]
            job = jobs[job_id]
            if not sought.may_ever_hold(job) or not self._is_ready(kind) or kind in self._number:
                reached.seen += reached.seen == place
            elif any(job_id in those for those in without):
                # What comes after it there may be the first.
                self._take_in(kind)
            elif sought.holds_now(job):
                self._take_in(kind)
                return

    def _behind(self, user: str) -> Iterator[_Place]:
        """The places of the ranks of a user that do not take part yet, in order."""
        load = self._load(user)
        for entry, kind in islice(self._known.by_user[user], self._users[user].at, None):
            if kind not in self._number and self._is_ready(kind):
                yield load, entry

    def _is_ready(self, kind: ClassKey) -> bool:
        return kind.ready_at is None or kind.ready_at <= self._session.now

    # Who is next

    def _goes_on(self, job: Job, outcome: Outcome) -> bool:
        """Note that a job waits; whether the next one of its queue may be looked at."""
        # Of two like jobs the second finds other victims than the first, or nobody left to leave.
        if outcome.reason is not Reason.WAITING_FOR_PREEMPTED:
            like = self._session.equivalence.class_of(job)
            told = self._session.answers.answers_for(self.queue.id, like, outcome)
            if job.id in self._session.outcomes:
                self._session.outcomes[job.id] = told[job.id]
            if like not in self._answered:
                self._answered.add(like)
                for kind in filter(self._is_ready, self._known.by_class.get(like, ())):
                    number = self._take_in(kind)
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
            if rank.leads:
                rank.leads = False
                self._bring(rank.kind.user)
            # A rank stands here twice where its head was put back, or was brought forward.
            if rank.told is not None or rank.over:
                continue
            place = self._place(rank)
            if place > noted:
                heappush(self._ahead, (place, number))
                continue
            self._from = number, rank.at
            rank.at += 1
            self._stand(self._ahead, number)
            return place, self._session.get_job(place[1][1])
        return None

    def _stand(self, heap: list[tuple[_Place, int]], number: int) -> None:
        """Put a rank into a heap, if it has a next job."""
        rank = self._ranks[number]
        if not rank.over:
            heappush(heap, (self._place(rank), number))

    def _place(self, rank: _Rank) -> _Place:
        """Where the next job of a rank stands: who used less lately goes first, where that counts, and then
        it goes by the queue's order."""
        return self._load(rank.kind.user), rank.line.entry(rank.at)

    def _load(self, user: str) -> float:
        return self._session.users.load(self.queue.id, user) or 0.0

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
        self._session.record_outcomes(answers)

    def _without_turn(self) -> tuple[Set[str], ...]:
        """Jobs that have no turn: they were answered, or an earlier attempt still holds something."""
        session = self._session
        return session.outcomes.keys(), session.snapshot.holding(), self._unseen()

    def _close(self) -> None:
        self.head = None
