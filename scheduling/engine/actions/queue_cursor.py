"""This module walks through the pending jobs of one queue: which one is the head, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace, merge
from itertools import islice

from scheduling.engine.actions.head_estimate import OwnQuotaFit
from scheduling.engine.model import Job, JobOutcome, Queue, Reason, Strategy
from scheduling.engine.session.queue_classes import ClassKey
from scheduling.engine.session.session import Session
from scheduling.engine.state.pending_jobs import PendingEntry, PendingQueue

_Place = tuple[float, PendingEntry]


@dataclass(slots=True)
class _Group:
    """Jobs of one user and equivalence class in the queue's order; those before `position` were passed.

    `end` is the number of its jobs, which no cycle changes. `outcomes` is the outcome of its jobs, if one of
    them was refused. `leads` says that later groups of its user are not open yet.
    """

    class_key: ClassKey
    line: PendingQueue
    end: int
    position: int = 0
    outcomes: Mapping[str, JobOutcome] | None = None
    leads: bool = False


@dataclass(slots=True)
class _UserProgress:
    """The number of groups of one user that were examined: those before `opened` are open, and those before
    `seen` are open or never fitted in the queue's own quota."""

    opened: int = 0
    seen: int = 0


class QueueCursor:
    """The position of one queue in a cycle: its head, and whether the queue is done.

    Of the groups of each user only those are open that have a job at the head or come next: of thousands of
    different jobs a cycle evaluates a few.
    """

    def __init__(
        self,
        session: Session,
        queue: Queue,
        hidden_jobs: Callable[[], Set[str]] = frozenset,
        find_precluded: Callable[[Job], JobOutcome | None] = lambda job: None,
    ) -> None:
        """`hidden_jobs` are jobs whose terminating tasks are not shown in the snapshot at the moment.
        `find_precluded` returns the outcome of a job that cannot start whichever jobs come before it; such a
        job never becomes the head."""
        self.queue = queue
        self._hidden_jobs = hidden_jobs
        self._find_precluded = find_precluded
        self._session = session
        self._by_load = session.users.uses_shares(queue)
        self._queue_classes = session.queue_classes(queue)
        self._groups: list[_Group] = []
        # Open groups by number; groups that are done drop out of `_open`.
        self._number: dict[ClassKey, int] = {}
        self._open: dict[int, _Group] = {}
        self._refused_classes: set[int] = set()
        # Heaps of groups by the place of their next job: groups to evaluate, and groups of refused classes.
        # The usage of a user only grows within a cycle, so no place comes before the recorded one.
        self._unevaluated_heap: list[tuple[_Place, int]] = []
        self._refused_heap: list[tuple[_Place, int]] = []
        self._users = {user: _UserProgress() for user in self._queue_classes.by_user}
        for user in self._users:
            self._open_next(user)
        self._tries_left = session.config.heads_per_queue
        self.head: Job | None = None
        # The group and position of the head, and the group of the job that was found last.
        self._head_position: tuple[int, int] = (0, 0)
        self._sought_group = 0
        self._advance()

    def advance_after_admission(self) -> None:
        """Move to the next job after the head was admitted, if the configuration refills."""
        if self._session.config.refill:
            self._advance()
        else:
            self._close()

    def advance_after_refusal(self, outcome: JobOutcome) -> None:
        """Move on after the head was refused: it blocks a strict queue; equivalent jobs are skipped."""
        if self.head is not None and self._may_continue(self.head, outcome):
            self._advance()
        else:
            self._close()

    def remaining_candidates(self) -> Iterator[Job]:
        """Yield the head and the first job of each other class without an outcome, in the queue's order, as
        many as may be evaluated."""
        if self.head is None:
            return
        yield self.head
        open_places = sorted(
            place for place, number in self._unevaluated_heap if self._groups[number].outcomes is None
        )
        upcoming = merge(open_places, *map(self._closed_places, self._users))
        for _, entry in islice(upcoming, self._tries_left):
            yield self._session.get_job(entry[-1])

    def find_first_fitting(self, quota_fit: OwnQuotaFit) -> Job | None:
        """Return the first job behind the head that fits now and is equivalent to no refused job;
        None in a strict queue."""
        if self.head is None or self.queue.strategy is Strategy.STRICT_FIFO:
            return None
        if quota_fit.refresh():
            for progress in self._users.values():
                progress.seen = progress.opened
        for user in self._users:
            self._seek(user, quota_fit)
        best: tuple[_Place, int] | None = None
        without = self._without_turn()
        for number, group in tuple(self._open.items()):
            if group.outcomes is not None:
                del self._open[number]
                continue
            job_at = group.line.job_at
            while group.position < group.end and any(job_at(group.position) in those for those in without):
                group.position += 1
            if group.position == group.end:
                del self._open[number]
            elif quota_fit.fits_now(self._session.get_job(job_at(group.position))):
                place = self._place(group), number
                best = place if best is None else min(best, place)
        if best is None:
            return None
        (_, entry), self._sought_group = best
        return self._session.get_job(entry[-1])

    def promote_job(self, job: Job) -> None:
        """Make the job that `find_first_fitting` returned last the head; the former head follows it."""
        assert self.head is not None  # noqa: S101 - it was asked for beside a head
        number, at = self._head_position
        self._groups[number].position = at
        self._open[number] = self._groups[number]
        self._push(self._unevaluated_heap, number)
        group = self._groups[self._sought_group]
        self._head_position = self._sought_group, group.position
        group.position += 1
        self.head = job

    # Open groups

    def _open_next(self, user: str) -> None:
        """Open the next group of a user, once the one before it has reached the head."""
        progress, groups = self._users[user], self._queue_classes.by_user[user]
        while progress.opened < len(groups):
            class_key = groups[progress.opened][1]
            progress.opened += 1
            if self._is_ready(class_key) and class_key not in self._number:
                self._groups[self._open_group(class_key)].leads = True
                return

    def _open_group(self, class_key: ClassKey) -> int:
        """Open a group if it is not open yet, and return its number."""
        number = self._number.get(class_key)
        if number is None:
            number = self._number[class_key] = len(self._groups)
            line = self._queue_classes.lines[class_key]
            self._groups.append(_Group(class_key, line, len(line)))
            self._open[number] = self._groups[number]
            self._push(self._unevaluated_heap, number)
        return number

    def _seek(self, user: str, quota_fit: OwnQuotaFit) -> None:
        """Open the first closed group of a user whose jobs fit now."""
        progress, groups = self._users[user], self._queue_classes.by_user[user]
        without, jobs = self._without_turn(), self._session.snapshot.jobs
        progress.seen = max(progress.seen, progress.opened)
        for place in range(progress.seen, len(groups)):
            entry, class_key = groups[place]
            job_id = entry[-1]
            job = jobs[job_id]
            if not quota_fit.may_ever_fit(job) or not self._is_ready(class_key) or class_key in self._number:
                progress.seen += progress.seen == place
            elif any(job_id in those for those in without):
                # A job behind it in the group may be the first.
                self._open_group(class_key)
            elif quota_fit.fits_now(job):
                self._open_group(class_key)
                return

    def _closed_places(self, user: str) -> Iterator[_Place]:
        """Yield the places of the closed groups of a user, in order."""
        load = self._load(user)
        for entry, class_key in islice(self._queue_classes.by_user[user], self._users[user].opened, None):
            if class_key not in self._number and self._is_ready(class_key):
                yield load, entry

    def _is_ready(self, class_key: ClassKey) -> bool:
        return class_key.ready_at is None or class_key.ready_at <= self._session.now

    # The next job

    def _may_continue(self, job: Job, outcome: JobOutcome) -> bool:
        """Record that a job waits, and return whether the next job of its queue may be evaluated."""
        # The second of two equivalent jobs finds other victims than the first, or none.
        if outcome.reason is not Reason.WAITING_FOR_PREEMPTED:
            job_class = self._session.equivalence.class_of(job)
            outcomes = self._session.class_outcomes.outcomes_of_class(self.queue.id, job_class, outcome)
            if job.id in self._session.outcomes:
                self._session.outcomes[job.id] = outcomes[job.id]
            if job_class not in self._refused_classes:
                self._refused_classes.add(job_class)
                for class_key in filter(self._is_ready, self._queue_classes.by_class.get(job_class, ())):
                    number = self._open_group(class_key)
                    self._groups[number].outcomes = outcomes
                    self._push(self._refused_heap, number)
        if self._tries_left is not None:
            self._tries_left -= 1
        # A job that its user's own limit refuses does not block the jobs behind it.
        blocks = self.queue.strategy is Strategy.STRICT_FIFO and outcome.reason is not Reason.POLICY_DENIED
        return not blocks and self._tries_left != 0

    def _advance(self) -> None:
        while (following := self._pop_next()) is not None:
            place, job = following
            outcomes, allocated, hidden = self._without_turn()
            if job.id in outcomes or job.id in allocated or job.id in hidden:
                continue
            outcome = self._find_precluded(job)
            if outcome is None:
                self._record_passed(place)
                self.head = job
                return
            if not self._may_continue(job, outcome):
                self._record_passed(place)
                self._close()
                return
        self._record_passed(None)
        self._close()

    def _pop_next(self) -> tuple[_Place, Job] | None:
        """Take the next job that is to be evaluated out of its group."""
        heap = self._unevaluated_heap
        while heap:
            noted, number = heap[0]
            group = self._groups[number]
            if group.leads:
                group.leads = False
                self._open_next(group.class_key.user)
                continue
            # A group is on the heap twice after its head was put back or promoted.
            if group.outcomes is not None or group.position == group.end:
                heappop(heap)
                continue
            load, line, position = self._load(group.class_key.user), group.line, group.position
            place = load, line.entry_at(position)
            if place > noted:
                heapreplace(heap, (place, number))
                continue
            self._head_position = number, position
            group.position = position + 1
            if group.position == group.end:
                heappop(heap)
            else:
                heapreplace(heap, ((load, line.entry_at(position + 1)), number))
            return place, self._session.get_job(place[1][-1])
        return None

    def _push(self, heap: list[tuple[_Place, int]], number: int) -> None:
        """Push a group onto a heap, if it has a next job."""
        group = self._groups[number]
        if group.position < group.end:
            heappush(heap, (self._place(group), number))

    def _place(self, group: _Group) -> _Place:
        """Return the sort key of a group's next job: less recent usage of its user first, where that counts,
        then the queue's order."""
        return self._load(group.class_key.user), group.line.entry_at(group.position)

    def _load(self, user: str) -> float:
        return (self._session.users.compute_load(self.queue.id, user) or 0.0) if self._by_load else 0.0

    def _record_passed(self, until: _Place | None) -> None:
        """Give jobs before a place (None: all) the outcome of the refused job that they are equivalent to."""
        while self._refused_heap and (until is None or self._refused_heap[0][0] < until):
            _, number = heappop(self._refused_heap)
            group = self._groups[number]
            place = self._place(group)
            if until is None or place[0] < until[0]:
                self._record_group(group, group.end)
            elif place < until:
                self._record_group(group, group.line.count_before(until[1]))
            self._push(self._refused_heap, number)

    def _record_group(self, group: _Group, end: int) -> None:
        """Give the jobs of a group before `end` their common outcome."""
        common = group.outcomes
        if common is None:
            return
        ids = group.line.jobs_between(group.position, end)
        group.position = end
        outcomes = dict(zip(ids, map(common.__getitem__, ids), strict=True))
        for job_id in {job_id for those in self._without_turn() for job_id in those & outcomes.keys()}:
            del outcomes[job_id]
        self._session.counters["skipped_as_equivalent"] += len(outcomes)
        self._session.record_outcomes(outcomes)

    def _without_turn(self) -> tuple[Set[str], Set[str], Set[str]]:
        """Return the sets of jobs that are not evaluated: with an outcome, and with terminating tasks."""
        session = self._session
        return session.outcomes.keys(), session.snapshot.jobs_with_allocations(), self._hidden_jobs()

    def _close(self) -> None:
        self.head = None
