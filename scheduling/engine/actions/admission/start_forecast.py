"""This module forecasts when pending jobs can start, as far as the ends of running jobs are known.

The later the time, the more is free. Where slots can be counted, counting names the earliest end after which
a job may start. Elsewhere that end is found by bisection for all pending jobs together, so that the known
ends are simulated a few times instead of once for each job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from quotas.tree import Amount
from quotas.tree.limits import min_amount
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator
from scheduling.engine.actions.admission.readmission_headroom import compute_headroom
from scheduling.engine.actions.head_estimate import estimate_head
from scheduling.engine.gang import RefusalCache
from scheduling.engine.gang.bounds import FreedAmounts, SlotBounds, WantedSlots
from scheduling.engine.model import Allocation, FlavorResource, Instant, Job, Queue
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import compute_job_demand, sum_charges_by_queue
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Mark, Statement

# The number of ends that are considered: later ones change before they come, and the search must not grow
# with the cluster.
MAX_ENDS = 256


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The tasks that will have ended at an instant."""

    at: Instant
    tasks: tuple[str, ...]


@dataclass(slots=True, eq=False)
class StartReservation:
    """A start that is reserved: when, where, and which tasks will have ended by then.

    `shadow_time` is the term of EASY backfilling for the reserved instant; None is an unknown time,
    in which case only tasks that start later are prevented from delaying the start, since `overdue_since`.
    `extra_quota` is how much of each quota others may still take, None for any amount. `certain` is False
    once others were placed where `placements` are.
    """

    job: Job
    queue: Queue
    shadow_time: Instant | None
    placements: tuple[Allocation, ...]
    ended: tuple[str, ...]
    borrows: bool
    extra_quota: dict[FlavorResource, Amount]
    certain: bool = True
    overdue_since: Instant | None = None


class StartForecast:
    """The forecast over one session's snapshot."""

    def __init__(self, session: Session, nominator: Nominator, future_view: FutureView) -> None:
        self._session, self._nominator, self._future_view = session, nominator, future_view
        self._snapshot = session.snapshot
        self._ends: list[KnownEnd] | None = None

    def forecast_starts(self, waiting: Iterable[NominatedJob]) -> dict[str, StartReservation | None]:
        """Return the earliest start of each job by queue; None where no known end helps.

        The caller may have released allocations before; nothing in the snapshot is changed.
        """
        entries = {nominated.queue.id: nominated for nominated in waiting}
        found = self._forecast_by_ends(entries)
        for name in [name for name, reservation in found.items() if reservation is None]:
            found[name] = self._reserve_overdue(entries[name])
        return found

    def _forecast_by_ends(self, entries: dict[str, NominatedJob]) -> dict[str, StartReservation | None]:
        """Return the earliest start of each job by known ends."""
        found: dict[str, StartReservation | None] = dict.fromkeys(entries)
        ends = self._known_ends()
        least = {name: self._count_ends(nominated) for name, nominated in entries.items() if ends}
        end_counts = {name: count for name, count in least.items() if count is not None}
        if not end_counts:
            return found
        with self._snapshot.statement() as statement:
            future = _FutureState(self._snapshot, statement, ends)
            for name, count in sorted(end_counts.items(), key=lambda each: each[1]):
                if count:
                    future.show_after(count)
                    found[name] = self._reserve_after(entries[name], ends[:count])
            left = [entries[name] for name in end_counts if found[name] is None]
            for rough in (True, False):
                if not left:
                    break
                after = self._bisect_ends(future, left, rough=rough)
                for name, count in sorted(after.items(), key=lambda each: -each[1]):
                    future.show_after(count)
                    found[name] = self._reserve_after(entries[name], ends[:count])
                # A count is an upper bound: what it refuses is refused, what it accepts may still fail.
                left = [entries[name] for name in after if found[name] is None]
        return found

    def may_reserve(self, queue: Queue, job: Job) -> bool:
        """Return whether a start could be reserved for a job that does not fit."""
        return queue.backfill and (bool(self._known_ends()) or self.is_overdue(job))

    def is_overdue(self, job: Job) -> bool:
        """Return whether a job has waited so long that its start is reserved without a known time."""
        return self._overdue_since(job) is not None

    def _overdue_since(self, job: Job) -> Instant | None:
        """Return the instant since which a job is overdue, or None."""
        bound = self._session.config.backfill.reservation_after_s
        if bound is None or self._session.now - job.waiting_since < bound:
            return None
        return Instant(job.waiting_since + bound)

    def _reserve_overdue(self, nominated: NominatedJob) -> StartReservation | None:
        """Return a reservation without a time for an overdue job, or None.

        Its placement assumes that the tasks of its queue that had started by then have ended. If there is
        none even so, quota alone is reserved, because others may be moved for it.
        """
        queue, job, since = nominated.queue, nominated.job, self._overdue_since(nominated.job)
        if since is None:
            return None
        holders = sorted(self._snapshot.jobs_charged_to(queue.id))
        ended = tuple(key for name in holders for key in self._tasks_started_by(name, since))
        with self._snapshot.statement() as statement:
            for key in ended:
                statement.release(key)
            for leave in (False, True):
                found, extra = self._evaluate(queue, job, leave=leave)
                if found.fits or found.targets:
                    extra = self._extra_beside_headroom(nominated, found, extra)
                    break
            else:
                extra = self._extra_of_nominal(found)
        if any(left is not None and left < 0 for left in extra.values()):
            return None
        return StartReservation(
            job=job,
            queue=queue,
            shadow_time=None,
            placements=found.placed,
            ended=ended,
            borrows=True,
            extra_quota=extra,
            overdue_since=since,
        )

    def _extra_beside_headroom(
        self, nominated: NominatedJob, found: NominatedJob, extra: dict[FlavorResource, Amount]
    ) -> dict[FlavorResource, Amount]:
        """Return what others may take beside a borrowing job that was evicted, less its headroom."""
        if not found.assignment.borrow_level:
            return extra
        tree, leaf = self._snapshot.quota, nominated.queue.quota_node
        root, left = tree.root(leaf), dict(extra)
        for key, amount in found.assignment.usage.items():
            owned, unused = (
                tree.subtree_quota(root, key),
                compute_headroom(self._session, nominated.queue, nominated.job, key),
            )
            if unused and owned is not None and tree.borrows(leaf, key, amount):
                left[key] = min_amount(extra.get(key), owned - tree.usage(root, key) - amount - unused)
        return left

    def _extra_of_nominal(self, nominated: NominatedJob) -> dict[FlavorResource, Amount]:
        """Return what a job would leave of its queue's own quota in the present state."""
        tree, leaf = self._snapshot.quota, nominated.queue.quota_node
        usage = estimate_head(self._session, tree, nominated.queue, nominated.job).usage
        owned = {key: tree.subtree_quota(leaf, key) for key, amount in usage.items() if amount}
        return {
            key: None if nominal is None else nominal - tree.usage(leaf, key) - usage[key]
            for key, nominal in owned.items()
        }

    def _tasks_started_by(self, job_id: str, since: Instant) -> Iterator[str]:
        """Yield the tasks of a job that had started by an instant or are terminating."""
        job = self._snapshot.jobs.get(job_id)
        started = None if job is None else job.attempt_started_at
        for task in self._snapshot.allocations_of(job_id):
            if task.leaving or started is None or started <= since:
                yield task.id

    def always_borrows(self, nominated: NominatedJob) -> bool:
        """Return whether a job's smallest size borrows even after all known ends of its queue."""
        freed, tree, job = self._freed_of_queue[nominated.queue.id], self._snapshot.quota, nominated.job
        for name in sorted({name for group in nominated.queue.effective_groups for name in group.flavors}):
            flavor = self._snapshot.flavors.get(name)
            if flavor is None:
                continue
            least = {role.name: max(0, role.min_count - role.ended) for role in job.roles}
            asked = compute_job_demand(job, least, flavor)
            leaf = nominated.queue.quota_node
            if not any(tree.borrows(leaf, key, amount - freed[key]) for key, amount in asked.items()):
                return False
        return True

    def _count_ends(self, nominated: NominatedJob) -> int | None:
        """Return the number of ends after which a job has enough slots, if it has quota.

        The result is 0 where counting does not decide, and None where slots are too few after all ends.
        """
        wanted = self._wanted_slots(nominated)
        if wanted is None:
            return 0
        if not self._bounds.may_fit_after(wanted, self._freed):
            return None
        held, counters = self._snapshot.allocations, self._bounds.free_slot_counters(wanted)
        for count, end in enumerate(self._known_ends(), 1):
            released = [task for key in end.tasks if (task := held.get(key)) is not None]
            for fits_by_count in counters:
                fits_by_count.remove_tasks(released)
            if any(fits_by_count.fits for fits_by_count in counters):
                return count
        return None

    def _wanted_slots(self, nominated: NominatedJob) -> WantedSlots | None:
        """Return the slots that the smallest size of a job needs, as far as they can be counted."""
        return self._bounds.find_missing(nominated.queue, nominated.job)[1]

    @property
    def _bounds(self) -> SlotBounds:
        return SlotBounds(self._snapshot, self._session.placer, self._session.equivalence.class_of)

    @cached_property
    def _ending(self) -> list[Allocation]:
        held = self._snapshot.allocations
        return [held[key] for end in self._known_ends() for key in end.tasks if key in held]

    @cached_property
    def _freed(self) -> FreedAmounts:
        return FreedAmounts.of_tasks(self._snapshot.fleet, self._ending)

    @cached_property
    def _freed_of_queue(self) -> defaultdict[str, Counter[FlavorResource]]:
        return sum_charges_by_queue(self._ending)

    def may_place(self, reservation: StartReservation, ended: list[Allocation]) -> bool:
        """Return False if slots are too few for a reservation even with these tasks ended; True is only an
        upper bound, as quota is not counted."""
        bounds = self._bounds
        wanted = bounds.find_missing(reservation.queue, reservation.job)[1]
        if wanted is None:
            return True
        freed = FreedAmounts.of_tasks(self._snapshot.fleet, ended)
        # The first count is of all rows at once; the second is exact.
        return bounds.may_fit_after(wanted, freed) and bounds.fits_after(wanted, ended)

    def place_reservation(self, reservation: StartReservation) -> bool:
        """Place a reservation in the present state, from which tasks that will have ended are released."""
        nominated, extra = self._evaluate(reservation.queue, reservation.job)
        if nominated.fits:
            reservation.placements, reservation.extra_quota, reservation.certain = (
                nominated.placed,
                extra,
                True,
            )
        return nominated.fits

    def _evaluate(
        self, queue: Queue, job: Job, *, leave: bool = False
    ) -> tuple[NominatedJob, dict[FlavorResource, Amount]]:
        """Return what a job would get in the present state, and the quota that this would leave."""
        with self._snapshot.statement() as statement:
            nominated = self._nominator.evaluate_job(
                statement, queue, job, EvaluationRequest(RefusalCache(), may_preempt=leave)
            )
            tree, leaf, usage = self._snapshot.quota, queue.quota_node, nominated.assignment.usage
            return nominated, {key: tree.available(leaf, key) for key, amount in usage.items() if amount}

    def _bisect_ends(
        self, future: _FutureState, entries: list[NominatedJob], *, rough: bool
    ) -> dict[str, int]:
        """Return the number of ends after which each job can start, without jobs that never can.

        With `rough` the result is counted, which may be too high where a job has several flavors.
        """
        tests = {nominated.queue.id: self._start_test(nominated, rough=rough) for nominated in entries}
        future.show_after(len(future.ends))
        bounds = {name: (1, len(future.ends)) for name, test in tests.items() if test()}
        while open_ := {name: sum(b) // 2 for name, b in bounds.items() if b[0] < b[1]}:
            for name, middle in sorted(open_.items(), key=lambda each: -each[1]):
                future.show_after(middle)
                low, high = bounds[name]
                bounds[name] = (low, middle) if tests[name]() else (middle + 1, high)
        return {name: low for name, (low, _) in bounds.items()}

    def _start_test(self, nominated: NominatedJob, *, rough: bool) -> Callable[[], bool]:
        bounds, wanted = self._bounds, self._wanted_slots(nominated) if rough else None

        def fits_by_count() -> bool:
            assert wanted is not None  # noqa: S101 - asked of those that can be counted
            return bounds.fits_now(wanted) and self._nominator.has_quota(nominated.queue, nominated.job)

        def fits_by_placement() -> bool:
            return self._evaluate(nominated.queue, nominated.job)[0].fits

        return fits_by_placement if wanted is None else fits_by_count

    def _reserve_after(self, nominated: NominatedJob, ends: list[KnownEnd]) -> StartReservation | None:
        found, extra = self._evaluate(nominated.queue, nominated.job)
        if not found.fits:
            return None
        return StartReservation(
            job=nominated.job,
            queue=nominated.queue,
            shadow_time=ends[-1].at,
            placements=found.placed,
            ended=tuple(key for end in ends for key in end.tasks),
            borrows=found.assignment.borrow_level > 0,
            extra_quota=extra,
        )

    def _known_ends(self) -> list[KnownEnd]:
        """Return the known ends in order; terminating tasks come first, with the present instant."""
        if self._ends is None:
            terminating = self._future_view.terminating_ids()
            first = [KnownEnd(self._session.now, terminating)] if terminating else []
            limited = sorted(
                self._ends_with_limit(frozenset(terminating)), key=lambda end: (end.at, end.tasks)
            )
            grouped = groupby(limited[:MAX_ENDS], key=lambda end: end.at)
            later = [KnownEnd(at, tuple(key for end in same for key in end.tasks)) for at, same in grouped]
            self._ends = [*first, *later] if limited else []
        return self._ends

    def _ends_with_limit(self, terminating: frozenset[str]) -> Iterator[KnownEnd]:
        """Yield at least the first `MAX_ENDS` ends of jobs that hold something and are not terminating."""
        snapshot, now = self._snapshot, self._session.now
        for job_id in snapshot.live_jobs.jobs_without_start():
            limit = snapshot.jobs[job_id].max_run_s
            if limit is not None and (tasks := self._running_tasks(job_id, terminating)):
                yield KnownEnd(Instant(now + limit), tasks)
        found = 0
        for at, job_id in snapshot.live_jobs.run_time_ends():
            if found == MAX_ENDS:
                return
            if tasks := self._running_tasks(job_id, terminating):
                found += 1
                yield KnownEnd(Instant(max(now, at)), tasks)

    def _running_tasks(self, job_id: str, terminating: frozenset[str]) -> tuple[str, ...]:
        held = self._snapshot.allocations_of(job_id)
        return tuple(task.id for task in held if not task.leaving and task.id not in terminating)


class _FutureState:
    """The snapshot after a number of ends, moved forwards and backwards inside one statement."""

    def __init__(self, snapshot: Snapshot, statement: Statement, ends: list[KnownEnd]) -> None:
        self._snapshot, self._statement, self.ends = snapshot, statement, ends
        self._marks: list[Mark] = []

    def show_after(self, count: int) -> None:
        """Show the state after this many ends."""
        if count < len(self._marks):
            self._statement.rollback(self._marks[count])
            del self._marks[count:]
        for end in self.ends[len(self._marks) : count]:
            self._marks.append(self._statement.checkpoint())
            for key in end.tasks:
                if key in self._snapshot.allocations:
                    self._statement.release(key)
