"""When waiting jobs will find their places, as far as it is known who ends when.

Looking further ahead frees more. Where places can be counted, counting names the earliest end after which
a job may start; elsewhere that end is found by halving, for all waiting jobs together, so that the known
ends are gone through a few times instead of anew for each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from quotas.tree import Amount
from quotas.tree.limits import min_amount
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.actions.admission.nominate import Ask, Nominator
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.actions.admission.spare import kept_free
from scheduling.engine.actions.head_estimate import estimate_head
from scheduling.engine.gang import RefusalCache
from scheduling.engine.gang.bounds import FreedAmounts, SlotBounds, WantedSlots
from scheduling.engine.model import Allocation, FlavorResource, Instant, Job, Queue
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import asked_of
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Mark, Statement

# How many ends are looked at: what lies further ahead changes before it comes, and the search must not
# grow with the cluster.
ENDS = 256


@dataclass(frozen=True, slots=True)
class End:
    """Tasks that have ended at an instant."""

    at: Instant
    tasks: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Reservation:
    """A start that is kept: when, where, and what will have ended by then.

    `spare` is how much of each quota may still be taken by others before it is too little then, None for
    any amount. `certain` is False where others came to stand in its places since. Where `at` is None nobody
    knows when those in `ended` will have ended; it is only sure that nobody who starts later delays it, and
    it is kept `since` then.
    """

    job: Job
    queue: Queue
    at: Instant | None
    places: tuple[Allocation, ...]
    ended: tuple[str, ...]
    borrows: bool
    spare: dict[FlavorResource, Amount]
    certain: bool = True
    since: Instant | None = None


class Ahead:
    """What is known of the future of one session's snapshot."""

    def __init__(self, session: Session, nominator: Nominator, outlook: Outlook) -> None:
        self._session, self._nominator, self._outlook = session, nominator, outlook
        self._snapshot = session.snapshot
        self._ends: list[End] | None = None

    def foresee(self, waiting: Iterable[Entry]) -> dict[str, Reservation | None]:
        """The earliest start of each of these jobs, by queue; None where no known end helps.

        The state may lack what is to be thought away; nothing in it is changed.
        """
        entries = {entry.queue.id: entry for entry in waiting}
        found = self._foreseen(entries)
        for name in [name for name, kept in found.items() if kept is None]:
            found[name] = self._held(entries[name])
        return found

    def _foreseen(self, entries: dict[str, Entry]) -> dict[str, Reservation | None]:
        """The earliest start of each job by known ends."""
        found: dict[str, Reservation | None] = dict.fromkeys(entries)
        ends = self._known_ends()
        least = {name: self._least(entry) for name, entry in entries.items() if ends}
        hopeful = {name: count for name, count in least.items() if count is not None}
        if not hopeful:
            return found
        with self._snapshot.statement() as statement:
            future = _Future(self._snapshot, statement, ends)
            for name, count in sorted(hopeful.items(), key=lambda each: each[1]):
                if count:
                    future.go(count)
                    found[name] = self._reserved(entries[name], ends[:count])
            left = [entries[name] for name in hopeful if found[name] is None]
            for rough in (True, False):
                if not left:
                    break
                after = self._halved(future, left, rough=rough)
                for name, count in sorted(after.items(), key=lambda each: -each[1]):
                    future.go(count)
                    found[name] = self._reserved(entries[name], ends[:count])
                # What counting refuses is refused; what it promised may have been too much.
                left = [entries[name] for name in after if found[name] is None]
        return found

    def may_keep(self, queue: Queue, job: Job) -> bool:
        """Whether a start could be kept for a job that does not fit."""
        return queue.backfill and (bool(self._known_ends()) or self.overdue(job))

    def overdue(self, job: Job) -> bool:
        """Whether a job has waited so long that it is kept a start without a known end."""
        return self._held_since(job) is not None

    def _held_since(self, job: Job) -> Instant | None:
        """Since when a job has waited long enough to be kept a start whose time is unknown."""
        bound = self._session.config.backfill.hold_after_s
        if bound is None or self._session.now - job.waits_since < bound:
            return None
        return Instant(job.waits_since + bound)

    def _held(self, entry: Entry) -> Reservation | None:
        """A start for a job that has waited long: where it will stand once those of its queue have ended that
        had started by then. Where there is no place even so, its quota alone: others may be moved for it.
        """
        queue, job, since = entry.queue, entry.job, self._held_since(entry.job)
        if since is None:
            return None
        holders = sorted(self._snapshot.holders(queue.id))
        ended = tuple(key for name in holders for key in self._older(name, since))
        with self._snapshot.statement() as statement:
            for key in ended:
                statement.release(key)
            for leave in (False, True):
                found, spare = self._start(queue, job, leave=leave)
                if found.fits or found.targets:
                    spare = self._beside_spare(entry, found, spare)
                    break
            else:
                spare = self._left_of_nominal(found)
        if any(left is not None and left < 0 for left in spare.values()):
            return None
        return Reservation(
            job=job,
            queue=queue,
            at=None,
            places=found.placed,
            ended=ended,
            borrows=True,
            spare=spare,
            since=since,
        )

    def _beside_spare(
        self, entry: Entry, found: Entry, spare: dict[FlavorResource, Amount]
    ) -> dict[FlavorResource, Amount]:
        """What others may take beside a job, where it was evicted and borrows less what must stay unused."""
        if not entry.job.evictions or not found.assignment.borrow_level:
            return spare
        tree, leaf = self._snapshot.quota, entry.queue.quota_node
        root, left = tree.root(leaf), dict(spare)
        for key, amount in found.assignment.usage.items():
            owned, unused = (
                tree.subtree_quota(root, key),
                kept_free(self._session, entry.queue, entry.job, key),
            )
            if unused and owned is not None and tree.borrows(leaf, key, amount):
                left[key] = min_amount(spare.get(key), owned - tree.usage(root, key) - amount - unused)
        return left

    def _left_of_nominal(self, entry: Entry) -> dict[FlavorResource, Amount]:
        """What a job would leave of what its queue owns, in the state as it is."""
        tree, leaf = self._snapshot.quota, entry.queue.quota_node
        usage = estimate_head(self._session, tree, entry.queue, entry.job).usage
        owned = {key: tree.subtree_quota(leaf, key) for key, amount in usage.items() if amount}
        return {
            key: None if nominal is None else nominal - tree.usage(leaf, key) - usage[key]
            for key, nominal in owned.items()
        }

    def _older(self, job_id: str, since: Instant) -> Iterator[str]:
        """The tasks of a job, if it had started by an instant or is leaving."""
        job = self._snapshot.jobs.get(job_id)
        started = None if job is None else job.since
        for task in self._snapshot.held(job_id):
            if task.leaving or started is None or started <= since:
                yield task.id

    def always_borrows(self, entry: Entry) -> bool:
        """Whether a job's smallest size is borrowed even when all that its queue holds, as far as is known
        when that ends, has ended."""
        freed, tree, job = self._freed_of_queue[entry.queue.id], self._snapshot.quota, entry.job
        for name in sorted({name for group in entry.queue.groups for name in group.flavors}):
            flavor = self._snapshot.flavors.get(name)
            if flavor is None:
                continue
            least = {role.name: max(0, role.least - role.ended) for role in job.roles}
            asked = asked_of(job, least, flavor)
            leaf = entry.queue.quota_node
            if not any(tree.borrows(leaf, key, amount - freed[key]) for key, amount in asked.items()):
                return False
        return True

    def _least(self, entry: Entry) -> int | None:
        """After how many ends there are enough seats for a job, if it has the quota; 0 where counting does
        not tell, None where there are too few after all of them."""
        wanted = self._wanted(entry)
        if wanted is None:
            return 0
        if not self._bounds.may_fit_after(wanted, self._freed):
            return None
        held, seats = self._snapshot.allocations, self._bounds.free_slot_counters(wanted)
        for count, end in enumerate(self._known_ends(), 1):
            gone = [task for key in end.tasks if (task := held.get(key)) is not None]
            for counted in seats:
                counted.remove_tasks(gone)
            if any(counted.fits for counted in seats):
                return count
        return None

    def _wanted(self, entry: Entry) -> WantedSlots | None:
        """Where the smallest size of a job would stand, as far as it can be counted."""
        return None if entry.job.replaces else self._bounds.find_missing(entry.queue, entry.job)[1]

    @property
    def _bounds(self) -> SlotBounds:
        return SlotBounds(self._snapshot, self._session.placer, self._session.equivalence)

    @cached_property
    def _ending(self) -> list[Allocation]:
        held = self._snapshot.allocations
        return [held[key] for end in self._known_ends() for key in end.tasks if key in held]

    @cached_property
    def _freed(self) -> FreedAmounts:
        return FreedAmounts.of_tasks(self._snapshot.fleet, self._ending)

    @cached_property
    def _freed_of_queue(self) -> defaultdict[str, Counter[FlavorResource]]:
        found: defaultdict[str, Counter[FlavorResource]] = defaultdict(Counter)
        for task in self._ending:
            for charge in task.charges:
                found[task.queue][charge.key] += charge.amount
        return found

    def may_place(self, kept: Reservation, ended: Iterable[Allocation]) -> bool:
        """False where there are too few seats for a reservation even with these gone: a rough bound."""
        bounds = self._bounds
        wanted = None if kept.job.replaces else bounds.find_missing(kept.queue, kept.job)[1]
        return wanted is None or bounds.may_fit_after(
            wanted, FreedAmounts.of_tasks(self._snapshot.fleet, ended)
        )

    def place(self, kept: Reservation) -> bool:
        """Give a reservation its places in the state as it is, what will have ended being gone already."""
        entry, spare = self._start(kept.queue, kept.job)
        if entry.fits:
            kept.places, kept.spare, kept.certain = entry.placed, spare, True
        return entry.fits

    def _start(
        self, queue: Queue, job: Job, *, leave: bool = False
    ) -> tuple[Entry, dict[FlavorResource, Amount]]:
        """What a job would get in the state as it is, and what quota it would leave its queue."""
        with self._snapshot.statement() as statement:
            entry = self._nominator.nominate(statement, queue, job, Ask(RefusalCache(), leave=leave))
            tree, leaf, usage = self._snapshot.quota, queue.quota_node, entry.assignment.usage
            return entry, {key: tree.available(leaf, key) for key, amount in usage.items() if amount}

    def _halved(self, future: _Future, entries: list[Entry], *, rough: bool) -> dict[str, int]:
        """After how many ends each job may find its places; without those that never do.

        `rough` goes by counts, which may promise too much where a job has several flavors.
        """
        tests = {entry.queue.id: self._test(entry, rough=rough) for entry in entries}
        future.go(len(future.ends))
        bounds = {name: (1, len(future.ends)) for name, test in tests.items() if test()}
        while open_ := {name: sum(b) // 2 for name, b in bounds.items() if b[0] < b[1]}:
            for name, middle in sorted(open_.items(), key=lambda each: -each[1]):
                future.go(middle)
                low, high = bounds[name]
                bounds[name] = (low, middle) if tests[name]() else (middle + 1, high)
        return {name: low for name, (low, _) in bounds.items()}

    def _test(self, entry: Entry, *, rough: bool) -> Callable[[], bool]:
        bounds, wanted = self._bounds, self._wanted(entry) if rough else None

        def counted() -> bool:
            assert wanted is not None  # noqa: S101 - asked of those that can be counted
            return bounds.fits_now(wanted) and self._nominator.has_quota(entry.queue, entry.job)

        def placed() -> bool:
            return self._start(entry.queue, entry.job)[0].fits

        return placed if wanted is None else counted

    def _reserved(self, entry: Entry, ends: list[End]) -> Reservation | None:
        found, spare = self._start(entry.queue, entry.job)
        if not found.fits:
            return None
        return Reservation(
            job=entry.job,
            queue=entry.queue,
            at=ends[-1].at,
            places=found.placed,
            ended=tuple(key for end in ends for key in end.tasks),
            borrows=found.assignment.borrow_level > 0,
            spare=spare,
        )

    def _known_ends(self) -> list[End]:
        """When what holds something now will have ended, where that is known; those leaving come first."""
        if self._ends is None:
            leaving = self._outlook.ids()
            first = [End(self._session.now, leaving)] if leaving else []
            limited = sorted(self._limited(frozenset(leaving)), key=lambda end: (end.at, end.tasks))
            grouped = groupby(limited[:ENDS], key=lambda end: end.at)
            later = [End(at, tuple(key for end in same for key in end.tasks)) for at, same in grouped]
            self._ends = [*first, *later] if limited else []
        return self._ends

    def _limited(self, leaving: frozenset[str]) -> Iterator[End]:
        """At least the first `ENDS` ends of jobs that hold something and are not leaving, nor told to in this
        cycle."""
        snapshot, now = self._snapshot, self._session.now
        for job_id in snapshot.watch.unstarted():
            limit = snapshot.jobs[job_id].max_run_s
            if limit is not None and (tasks := self._staying(job_id, leaving)):
                yield End(Instant(now + limit), tasks)
        found = 0
        for at, job_id in snapshot.watch.ends():
            if found == ENDS:
                return
            if tasks := self._staying(job_id, leaving):
                found += 1
                yield End(Instant(max(now, at)), tasks)

    def _staying(self, job_id: str, leaving: frozenset[str]) -> tuple[str, ...]:
        held = self._snapshot.held(job_id)
        return tuple(task.id for task in held if not task.leaving and task.id not in leaving)


class _Future:
    """A snapshot as it will be after the first ends, inside one statement."""

    def __init__(self, snapshot: Snapshot, statement: Statement, ends: list[End]) -> None:
        self._snapshot, self._statement, self.ends = snapshot, statement, ends
        self._marks: list[Mark] = []

    def go(self, count: int) -> None:
        """Show the state after so many ends."""
        if count < len(self._marks):
            self._statement.rollback(self._marks[count])
            del self._marks[count:]
        for end in self.ends[len(self._marks) : count]:
            self._marks.append(self._statement.checkpoint())
            for key in end.tasks:
                if key in self._snapshot.allocations:
                    self._statement.release(key)
