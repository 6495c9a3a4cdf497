"""This module reserves a start for the first job of each queue that does not fit, so that smaller jobs cannot
starve it.

Where run-time limits are known, the instant is known at which enough will have ended, the shadow time. A job
behind the waiting one may start, now or once others have ended, if it ends by then, or if the waiting job can
start all the same. Source: EASY backfilling (Lifka, "The ANL/IBM SP scheduling system", 1995). For a job that
is overdue (`BackfillOptions`) a start is reserved without a time: the present jobs of its queue will end some
day, and jobs that start later must not delay it.

A reservation binds the jobs behind it in its own queue. It binds other queues only where they would borrow
and the waiting job would not, because a nominal quota belongs to its queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from scheduling.engine.actions.admission.claims import can_hold
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import Nominator
from scheduling.engine.actions.admission.start_forecast import StartForecast, StartReservation
from scheduling.engine.model import Allocation, FlavorResource, Help, HelpCode, Job, Queue, Reason
from scheduling.engine.placement.index.question import member_rows
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import sum_charges, sum_charges_by_queue

# The most reservations that one cycle makes.
MAX_RESERVATIONS = 32
RESERVABLE_REASONS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


class Backfill:
    """The reservations of one cycle."""

    def __init__(self, session: Session, nominator: Nominator, future_view: FutureView) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._forecast = StartForecast(session, nominator, future_view)
        self._waiting: dict[str, NominatedJob] = {}
        self._reservations: dict[str, StartReservation | None] = {}
        self._borrowing: dict[str, bool] = {}

    def reserve_start(self, nominated: NominatedJob) -> None:
        """Reserve a start for a refused job, if it is the first of its queue and its start can be computed.

        The start is computed when a job is evaluated that it could conflict with.
        """
        queue, refusal = nominated.queue, nominated.refusal
        if queue.backfill and refusal is not None and refusal.reason in RESERVABLE_REASONS:
            self._waiting.setdefault(queue.id, nominated)

    def may_reserve(self, queue: Queue, job: Job) -> bool:
        """Return whether a start could be reserved for a job of a queue that has no reservation yet."""
        return queue.id not in self._waiting and self._forecast.may_reserve(queue, job)

    def holds_for_overdue(self, nominated: NominatedJob) -> bool:
        """Return whether the queue of a job has a reservation for an overdue job."""
        waiting = self._waiting.get(nominated.queue.id)
        return waiting is not None and self._forecast.is_overdue(waiting.job)

    def reserve_if_overdue(self, nominated: NominatedJob) -> None:
        """Reserve a start for an overdue job that was not evaluated because it may not borrow yet."""
        if self._forecast.is_overdue(nominated.job):
            self.reserve_start(nominated)

    def has_reservation(self, nominated: NominatedJob) -> bool:
        """Return whether the queue's reservation is for this job."""
        waiting = self._waiting.get(nominated.queue.id)
        return waiting is not None and waiting.job.id == nominated.job.id

    def record_start(self, nominated: NominatedJob) -> None:
        """Drop the reservation of a job that starts or has a claim; its tasks lower what others leave."""
        if self.has_reservation(nominated):
            del self._waiting[nominated.queue.id]
            self._reservations.pop(nominated.queue.id, None)
        self.record_placements(nominated.placed)

    def find_conflict(self, nominated: NominatedJob) -> Refusal | None:
        """Return why a job that fits and is placed already may not take capacity of a reservation."""
        if not self._waiting:
            return None
        bound = [name for name, waiting in self._waiting.items() if self._may_bind(waiting, nominated)]
        self._compute_reservations(bound, nominated)
        for name in sorted(bound):
            reservation = self._reservations.get(name)
            if (
                reservation is None
                or not self._binds(reservation, nominated)
                or self._ends_in_time(reservation, nominated)
            ):
                continue
            if self._leaves_free(reservation, nominated):
                continue
            if self._exceeds_extra(reservation, nominated) or not self._starts_anyway(reservation):
                return self._refuse_reserved(reservation, nominated)
        return None

    def record_placements(self, places: Iterable[Allocation]) -> None:
        """Subtract what was placed or claimed from what reservations leave to others."""
        certain = [found for found in self._reservations.values() if found is not None and found.certain]
        if not certain:
            return
        held = tuple(places)
        usage = sum_charges(charge for task in held for charge in task.charges)
        for reservation in certain:
            reservation.certain = not _overlaps(reservation.placements, held)
            _subtract_usage(reservation, usage)

    def _compute_reservations(self, names: list[str], nominated: NominatedJob) -> None:
        """Compute the reservations of these queues, as if the evaluated job were not placed yet."""
        fresh = [name for name in names if name not in self._reservations]
        fresh = fresh[: max(0, MAX_RESERVATIONS - len(self._reservations))]
        if not fresh:
            return
        with self._snapshot.statement() as statement:
            for allocation in nominated.placed:
                statement.release(allocation.id)
            found = self._forecast.forecast_starts(self._waiting[name] for name in fresh)
        self._reservations.update(found)
        self._session.counters["reserved"] += sum(reservation is not None for reservation in found.values())

    def _may_bind(self, waiting: NominatedJob, nominated: NominatedJob) -> bool:
        """Return whether a reservation for one job could bind the other, whatever its time."""
        if waiting.job.id == nominated.job.id:
            return False
        name = waiting.queue.id
        if name == nominated.queue.id:
            return True
        if not nominated.assignment.borrow_level or not self._compete(waiting.queue, nominated):
            return False
        if name not in self._borrowing:
            self._borrowing[name] = self._forecast.always_borrows(waiting)
        return not self._borrowing[name]

    def _compete(self, queue: Queue, nominated: NominatedJob) -> bool:
        """Return whether a job has quota or nodes that jobs of a queue may be given."""
        mine = {name for group in queue.effective_groups for name in group.flavors}
        if not mine.isdisjoint(name for role in nominated.assignment.roles for name in role.flavors):
            return True
        fleet = self._snapshot.fleet
        rows = [fleet.row[task.node] for task in nominated.placed if task.node in fleet.row]
        flavors = (self._snapshot.flavors.get(name) for name in sorted(mine))
        return any(bool(member_rows(fleet, f)[rows].any()) for f in flavors if f is not None and f.placed)

    def _binds(self, reservation: StartReservation, nominated: NominatedJob) -> bool:
        return reservation.queue.id == nominated.queue.id or not reservation.borrows

    def _ends_in_time(self, reservation: StartReservation, nominated: NominatedJob) -> bool:
        limit = nominated.job.max_run_s
        return (
            limit is not None
            and reservation.shadow_time is not None
            and self._session.now + limit <= reservation.shadow_time
        )

    def _leaves_free(self, reservation: StartReservation, nominated: NominatedJob) -> bool:
        """Return whether a job takes nothing of what is reserved; then no more needs to be checked."""
        if not reservation.certain or _overlaps(reservation.placements, nominated.placed):
            return False
        return not _exceeds(reservation, nominated)

    def _exceeds_extra(self, reservation: StartReservation, nominated: NominatedJob) -> bool:
        """Return whether a job takes quota that an overdue job will lack, wherever that is placed."""
        return reservation.shadow_time is None and (
            not reservation.placements or _exceeds(reservation, nominated)
        )

    def _starts_anyway(self, reservation: StartReservation) -> bool:
        """Return whether the waiting job can start at its time with this job running, wherever placed."""
        held = self._snapshot.allocations
        ended = [task for key in reservation.ended if (task := held.get(key)) is not None]
        if not self._forecast.may_place(reservation, ended):
            return False
        if self._placements_hold(reservation, ended):
            return True
        with self._snapshot.statement() as statement:
            for task in ended:
                statement.release(task.id)
            return self._forecast.place_reservation(reservation)

    def _placements_hold(self, reservation: StartReservation, ended: list[Allocation]) -> bool:
        """Return whether the reserved placement is free once these tasks have ended; off its nodes they
        release quota alone."""
        nodes = {task.node for task in reservation.placements}
        here = [task for task in ended if task.node in nodes]
        elsewhere = [task for task in ended if task.node not in nodes]
        with self._snapshot.statement() as statement, self._uncharged(elsewhere):
            for task in here:
                statement.release(task.id)
            return can_hold(self._snapshot, reservation.placements)

    @contextmanager
    def _uncharged(self, tasks: Iterable[Allocation]) -> Iterator[None]:
        """Remove the charges of these tasks from the quota tree until the block ends."""
        tree, queues = self._snapshot.quota, self._snapshot.queues
        freed = [(queues[name].quota_node, sums) for name, sums in sum_charges_by_queue(tasks).items()]
        for leaf, amounts in freed:
            tree.remove_usages(leaf, amounts)
        try:
            yield
        finally:
            for leaf, amounts in freed:
                tree.add_usages(leaf, amounts)

    def _refuse_reserved(self, reservation: StartReservation, nominated: NominatedJob) -> Refusal:
        numbers: dict[str, int | str] = {}
        ways: tuple[Help, ...] = ()
        if reservation.overdue_since is not None:
            numbers["since"] = int(reservation.overdue_since)
        if reservation.shadow_time is not None:
            numbers["at"] = int(-(-reservation.shadow_time // 1))
            ways = (Help(HelpCode.WAIT_UNTIL, {"at": numbers["at"]}),)
        # The name of another queue's job may be a secret of another tenant.
        if reservation.queue.id == nominated.queue.id:
            numbers["job"] = reservation.job.id
        return Refusal(Reason.RESERVED_FOR_LARGER, numbers, ways)


def _exceeds(reservation: StartReservation, nominated: NominatedJob) -> bool:
    """Return whether a job takes more quota than a reservation leaves to others."""
    usage = nominated.assignment.usage
    return any(left is not None and usage.get(key, 0) > left for key, left in reservation.extra_quota.items())


def _subtract_usage(reservation: StartReservation, usage: dict[FlavorResource, int]) -> None:
    for key, left in reservation.extra_quota.items():
        amount = usage.get(key, 0)
        if amount and left is not None:
            reservation.extra_quota[key] = left - amount


def _overlaps(places: Iterable[Allocation], others: Iterable[Allocation]) -> bool:
    """Return whether tasks of both run on one node."""
    nodes = {task.node for task in places}
    return any(task.node in nodes for task in others)
