"""A start kept for the first job of each queue that does not fit, so that smaller ones cannot starve it.

Where run-time limits are known, the moment is known at which enough will have ended. Jobs behind the
waiting one may start, now or once others have left, if they have ended by then, or if it can start then all
the same. Source: EASY backfilling (Lifka, 1995). For one that has waited long (`BackfillOptions`) a start is
kept without a time: what its queue ran by then will end some day, and what starts later must not delay it.

A reservation binds the jobs behind it in its own queue. It binds other queues only where they would
borrow and the waiting job would not: what is inside a nominal is nobody else's to keep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from scheduling.engine.actions.admission.ahead import Ahead, Reservation
from scheduling.engine.actions.admission.claims import stands
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.actions.admission.nominate import Nominator
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.model import Allocation, FlavorResource, Help, HelpCode, Job, Queue, Reason
from scheduling.engine.placement.index.question import members
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import priced, summed

# How many reservations one cycle makes.
RESERVATIONS = 32
WAITS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


class Backfill:
    """The reservations of one cycle."""

    def __init__(self, session: Session, nominator: Nominator, outlook: Outlook) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._ahead = Ahead(session, nominator, outlook)
        self._waiting: dict[str, Entry] = {}
        self._kept: dict[str, Reservation | None] = {}
        self._borrowing: dict[str, bool] = {}

    def reserve(self, entry: Entry) -> None:
        """Keep a start for a job that was refused, if it is the first of its queue and one is foreseeable.

        When that is, is worked out when somebody comes who would have to heed it.
        """
        queue, refusal = entry.queue, entry.refusal
        if queue.backfill and refusal is not None and refusal.reason in WAITS:
            self._waiting.setdefault(queue.id, entry)

    def may_keep(self, queue: Queue, job: Job) -> bool:
        """Whether a start could be kept for a job of a queue for which none is kept yet."""
        return queue.id not in self._waiting and self._ahead.may_keep(queue, job)

    def holds(self, entry: Entry) -> bool:
        """Whether the queue of a job keeps a start for one that has waited long, whenever that will be."""
        waiting = self._waiting.get(entry.queue.id)
        return waiting is not None and self._ahead.overdue(waiting.job)

    def reserve_late(self, entry: Entry) -> None:
        """The same for a job that was not tried because it may not borrow yet, once it has waited long."""
        if self._ahead.overdue(entry.job):
            self.reserve(entry)

    def keeps(self, entry: Entry) -> bool:
        """Whether it is this job for which its queue keeps a start."""
        waiting = self._waiting.get(entry.queue.id)
        return waiting is not None and waiting.job.id == entry.job.id

    def served(self, entry: Entry) -> None:
        """A job has its start or the promise of one: nothing more is kept for it."""
        if self.keeps(entry):
            del self._waiting[entry.queue.id]
            self._kept.pop(entry.queue.id, None)

    def refusal(self, entry: Entry) -> Refusal | None:
        """Why a job that fits, and whose tasks hold their places already, must leave them to another."""
        bound = [name for name, waiting in self._waiting.items() if self._may_bind(waiting, entry)]
        self._foresee(bound, entry)
        for name in sorted(bound):
            kept = self._kept.get(name)
            if kept is None or not self._binds(kept, entry) or self._ends_in_time(kept, entry):
                continue
            if self._keeps_clear(kept, entry):
                continue
            if self._too_much(kept, entry) or not self._starts_all_the_same(kept):
                return self._told(kept, entry)
        return None

    def taken(self, places: Iterable[Allocation]) -> None:
        """Somebody started, or was promised, what is less for those who wait."""
        held = tuple(places)
        usage = summed(charge for task in held for charge in task.charges)
        for kept in self._kept.values():
            if kept is not None and kept.certain:
                kept.certain = not _meet(kept.places, held)
                _spend(kept, usage)

    def _foresee(self, names: list[str], entry: Entry) -> None:
        """Work out what is kept for these queues, as if the job that asks were not there yet."""
        fresh = [name for name in names if name not in self._kept]
        fresh = fresh[: max(0, RESERVATIONS - len(self._kept))]
        if not fresh:
            return
        with self._snapshot.statement() as statement:
            for allocation in entry.placed:
                statement.release(allocation.id)
            found = self._ahead.foresee(self._waiting[name] for name in fresh)
        self._kept.update(found)
        self._session.counters["reserved"] += sum(kept is not None for kept in found.values())

    def _may_bind(self, waiting: Entry, entry: Entry) -> bool:
        """Whether a start kept for the one could hold back the other, whenever that is."""
        if waiting.job.id == entry.job.id:
            return False
        name = waiting.queue.id
        if name == entry.queue.id:
            return True
        if not entry.assignment.borrow_level or not self._compete(waiting.queue, entry):
            return False
        if name not in self._borrowing:
            self._borrowing[name] = self._ahead.always_borrows(waiting)
        return not self._borrowing[name]

    def _compete(self, queue: Queue, entry: Entry) -> bool:
        """Whether a job has quota or places that jobs of a queue may be given."""
        mine = {name for group in queue.groups for name in group.flavors}
        if not mine.isdisjoint(name for role in entry.assignment.roles for name in role.flavors):
            return True
        fleet = self._snapshot.fleet
        rows = [fleet.row[task.node] for task in entry.placed if task.node in fleet.row]
        flavors = (self._snapshot.flavors.get(name) for name in sorted(mine))
        return any(bool(members(fleet, f)[rows].any()) for f in flavors if f is not None and f.placed)

    def _binds(self, kept: Reservation, entry: Entry) -> bool:
        return kept.queue.id == entry.queue.id or not kept.borrows

    def _ends_in_time(self, kept: Reservation, entry: Entry) -> bool:
        limit = entry.job.max_run_s
        return limit is not None and kept.at is not None and self._session.now + limit <= kept.at

    def _keeps_clear(self, kept: Reservation, entry: Entry) -> bool:
        """Whether a job takes nothing of what is kept: then no more need be known."""
        if not kept.certain or _meet(kept.places, entry.placed):
            return False
        return not _exceeds(kept, entry)

    def _too_much(self, kept: Reservation, entry: Entry) -> bool:
        """Whether a job takes quota that will be too little for one that has waited long, wherever that is to
        stand: nobody else is known to end."""
        return kept.at is None and (not kept.places or _exceeds(kept, entry))

    def _starts_all_the_same(self, kept: Reservation) -> bool:
        """Whether the waiting job can start at its time, at its places or others, with this job running."""
        held = self._snapshot.allocations
        ended = [task for key in kept.ended if (task := held.get(key)) is not None]
        if not self._ahead.may_place(kept, ended):
            return False
        if self._stands(kept, ended):
            return True
        with self._snapshot.statement() as statement:
            for task in ended:
                statement.release(task.id)
            return self._ahead.place(kept)

    def _stands(self, kept: Reservation, ended: list[Allocation]) -> bool:
        """Whether its places hold it once these have ended; off its nodes they give back quota alone."""
        nodes = {task.node for task in kept.places}
        here = [task for task in ended if task.node in nodes]
        elsewhere = [task for task in ended if task.node not in nodes]
        with self._snapshot.statement() as statement, self._uncharged(elsewhere):
            for task in here:
                statement.release(task.id)
            return stands(self._snapshot, kept.places)

    @contextmanager
    def _uncharged(self, tasks: Iterable[Allocation]) -> Iterator[None]:
        """The quota without what these are charged."""
        tree, freed = self._snapshot.quota, defaultdict[str, Counter[FlavorResource]](Counter)
        for task in tasks:
            freed[self._snapshot.queues[task.queue].quota_node].update(priced(task.charges))
        for leaf, amounts in freed.items():
            tree.remove_usages(leaf, amounts)
        try:
            yield
        finally:
            for leaf, amounts in freed.items():
                tree.add_usages(leaf, amounts)

    def _told(self, kept: Reservation, entry: Entry) -> Refusal:
        numbers: dict[str, int | str] = {}
        ways: tuple[Help, ...] = ()
        if kept.since is not None:
            numbers["since"] = int(kept.since)
        if kept.at is not None:
            numbers["at"] = int(-(-kept.at // 1))
            ways = (Help(HelpCode.WAIT_UNTIL, {"at": numbers["at"]}),)
        # The name of another queue's job may be another tenant's secret.
        if kept.queue.id == entry.queue.id:
            numbers["job"] = kept.job.id
        return Refusal(Reason.RESERVED_FOR_LARGER, numbers, ways)


def _exceeds(kept: Reservation, entry: Entry) -> bool:
    """Whether a job takes more quota than may be taken of what is kept."""
    usage = entry.assignment.usage
    return any(left is not None and usage.get(key, 0) > left for key, left in kept.spare.items())


def _spend(kept: Reservation, usage: dict[FlavorResource, int]) -> None:
    for key, left in kept.spare.items():
        amount = usage.get(key, 0)
        if amount and left is not None:
            kept.spare[key] = left - amount


def _meet(places: Iterable[Allocation], others: Iterable[Allocation]) -> bool:
    """Whether tasks of both stand on one node."""
    nodes = {task.node for task in places}
    return any(task.node in nodes for task in others)
