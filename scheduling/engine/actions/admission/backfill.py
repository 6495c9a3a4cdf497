"""A start kept for the first job of each queue that does not fit, so that smaller ones cannot starve it.

Where run-time limits are known, the moment is known at which enough will have ended. Jobs behind the
waiting one may start now if they have ended by then, or if it can start then all the same. Source: EASY
backfilling (Lifka, 1995).

A reservation binds the jobs behind it in its own queue. It binds other queues only where they would
borrow and the waiting job would not: what is inside a nominal is nobody else's to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING

from scheduling.engine.actions.admission.claims import stands
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.actions.admission.nominate import Ask, Nominator
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.gang import FullRooms
from scheduling.engine.model import (
    Allocation,
    Help,
    HelpCode,
    Instant,
    Job,
    Queue,
    Reason,
)
from scheduling.engine.quota.assignment import Refusal

if TYPE_CHECKING:
    from scheduling.engine.session import Session

# How many ends are looked at for one reservation, and how many reservations one cycle makes: what lies
# further ahead changes before it comes, and the search must not grow with the cluster.
ENDS = 256
RESERVATIONS = 32
WAITS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


@dataclass(slots=True)
class Reservation:
    """A start that is kept: when, where, and what will have ended by then."""

    job: Job
    queue: Queue
    at: Instant
    places: tuple[Allocation, ...]
    ended: tuple[str, ...]
    borrows: bool


@dataclass(frozen=True, slots=True)
class End:
    """Tasks that have ended at an instant."""

    at: Instant
    tasks: tuple[str, ...]


class Backfill:
    """The reservations of one cycle."""

    def __init__(self, session: Session, nominator: Nominator, outlook: Outlook) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._nominator = nominator
        self._outlook = outlook
        self._waiting: dict[str, Entry] = {}
        self._kept: dict[str, Reservation | None] = {}
        self._ends: list[End] | None = None

    def reserve(self, entry: Entry) -> None:
        """Keep a start for a job that was refused, if it is the first of its queue and one is foreseeable.

        When that is, is worked out when somebody comes who would have to heed it.
        """
        queue, refusal = entry.queue, entry.refusal
        if queue.backfill and refusal is not None and refusal.reason in WAITS:
            self._waiting.setdefault(queue.id, entry)

    def refusal(self, entry: Entry) -> Refusal | None:
        """Why a job that fits, and whose tasks hold their places already, must leave them to another."""
        for name in sorted(self._waiting):
            waiting = self._waiting[name]
            if waiting.job.id == entry.job.id or not self._may_bind(waiting, entry):
                continue
            kept = self._reservation(waiting, entry)
            if kept is None or not self._binds(kept, entry) or self._ends_in_time(kept, entry):
                continue
            if not self._starts_all_the_same(kept):
                return self._told(kept, entry)
        return None

    def _may_bind(self, waiting: Entry, entry: Entry) -> bool:
        return waiting.queue.id == entry.queue.id or entry.assignment.borrow_level > 0

    def _binds(self, kept: Reservation, entry: Entry) -> bool:
        return kept.queue.id == entry.queue.id or not kept.borrows

    def _reservation(self, waiting: Entry, entry: Entry) -> Reservation | None:
        """The start kept for a waiting job, as if the one that asks were not there yet."""
        name = waiting.queue.id
        if name not in self._kept:
            if len(self._kept) >= RESERVATIONS:
                return None
            with self._snapshot.statement() as statement:
                for allocation in entry.placed:
                    statement.release(allocation.id)
                self._kept[name] = self._foreseen(waiting.queue, waiting.job)
            self._session.counters["reserved"] += self._kept[name] is not None
        return self._kept[name]

    def _ends_in_time(self, kept: Reservation, entry: Entry) -> bool:
        limit = entry.job.max_run_s
        return limit is not None and self._session.now + limit <= kept.at

    def _starts_all_the_same(self, kept: Reservation) -> bool:
        """Whether the waiting job can start at its time, at its places or others, with this job running."""
        with self._snapshot.statement() as statement:
            for key in kept.ended:
                if key in self._snapshot.allocations:
                    statement.release(key)
            if stands(self._snapshot, kept.places):
                return True
            ask = Ask(FullRooms(), leave=False)
            entry = self._nominator.nominate(statement, kept.queue, kept.job, ask)
            if entry.fits:
                kept.places = entry.placed
            return entry.fits

    def _foreseen(self, queue: Queue, job: Job) -> Reservation | None:
        """The earliest known end after which the job fits."""
        ends = self._known_ends()
        # Mostly no known end helps; then the last one tells.
        found = self._after(queue, job, ends) if ends else None
        low, high = 1, len(ends) - 1 if found is not None else 0
        while low <= high:
            middle = (low + high) // 2
            attempt = self._after(queue, job, ends[:middle])
            if attempt is None:
                low = middle + 1
            else:
                found, high = attempt, middle - 1
        return found

    def _after(self, queue: Queue, job: Job, ends: list[End]) -> Reservation | None:
        ended = tuple(key for end in ends for key in end.tasks)
        with self._snapshot.statement() as statement:
            for key in ended:
                if key in self._snapshot.allocations:
                    statement.release(key)
            entry = self._nominator.nominate(statement, queue, job, Ask(FullRooms(), leave=False))
        if not entry.fits:
            return None
        borrows = entry.assignment.borrow_level > 0
        return Reservation(job, queue, ends[-1].at, entry.placed, ended, borrows)

    def _known_ends(self) -> list[End]:
        """When what holds something now will have ended, where that is known; those leaving come first."""
        if self._ends is None:
            leaving = self._outlook.ids()
            first = [End(self._session.now, leaving)] if leaving else []
            limited = list(islice(self._limited(), ENDS))
            grouped = groupby(limited, key=lambda end: end.at)
            later = [End(at, tuple(key for end in same for key in end.tasks)) for at, same in grouped]
            self._ends = [*first, *later] if limited else []
        return self._ends

    def _limited(self) -> Iterator[End]:
        """What will have ended at the end of each run time, first the next."""
        snapshot, now = self._snapshot, self._session.now
        unstarted = ((now + (snapshot.jobs[key].max_run_s or 0), key) for key in snapshot.watch.unstarted())
        for at, job_id in merge(snapshot.watch.ends(), sorted(unstarted)):
            tasks = tuple(held.id for held in snapshot.held(job_id) if not held.leaving)
            if tasks:
                yield End(Instant(max(now, at)), tasks)

    def _told(self, kept: Reservation, entry: Entry) -> Refusal:
        at = int(-(-kept.at // 1))
        numbers: dict[str, int | str] = {"at": at}
        # The name of another queue's job may be another tenant's secret.
        if kept.queue.id == entry.queue.id:
            numbers["job"] = kept.job.id
        ways: tuple[Help, ...] = (Help(HelpCode.WAIT_UNTIL, {"at": at}),)
        return Refusal(Reason.RESERVED_FOR_LARGER, numbers, ways)
