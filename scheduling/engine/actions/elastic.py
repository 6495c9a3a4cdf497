"""The action that lets elastic jobs breathe: they give up surplus for others and grow into idle room."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from quotas.tree import at_least
from scheduling.engine.actions.leaving import release, running_among
from scheduling.engine.gang.attempt import Attempt
from scheduling.engine.gang.bounds import Bounds, Freed
from scheduling.engine.gang.standing import expendable, lacks, stands
from scheduling.engine.gang.surrender import surrender
from scheduling.engine.model import (
    Allocation,
    AllocationMode,
    Decision,
    DecisionKind,
    FlavorResource,
    Job,
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.preemption.loss import charged
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.charges import asked_of

if TYPE_CHECKING:
    from scheduling.engine.session import Session

SURPLUS_HELPS = (Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED, Reason.NO_ROOM)
# Nothing that others give up would help these, so they keep nobody from growing.
NOT_FOR_ROOM = (
    Reason.NEVER_FITS,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.POLICY_DENIED,
    Reason.QUEUE_STOPPED,
    Reason.SUSPENDED,
)
JOBS_TRIED = 16
KEPT = 1024


class Lenders:
    """Jobs of one queue with the tasks that they can spare, as long as none of them gave anything up."""

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session, self._queue = session, queue
        self._known: dict[int, tuple[list[Allocation], Freed]] = {}
        self._charged: dict[int, dict[FlavorResource, int]] = {}
        spares = session.snapshot.job_memo.get(Lenders)
        if not isinstance(spares, dict) or len(spares) > KEPT + 2 * len(session.snapshot.jobs):
            spares = session.snapshot.job_memo[Lenders] = {}
        self._spares: dict[str, tuple[Job, tuple[Allocation, ...], Sequence[Allocation]]] = spares

    @cached_property
    def _givers(self) -> list[tuple[Job, Sequence[Allocation]]]:
        """Lower priority first, then the newest."""
        snapshot, found = self._session.snapshot, []
        for job_id in snapshot.watch.elastic[self._queue.id]:
            job, held = snapshot.jobs[job_id], snapshot.held(job_id)
            if job.preemptible and held and (spare := self._spare(job, held)):
                found.append((job, spare))
        return sorted(found, key=lambda pair: (pair[0].priority, -pair[0].submitted_at, pair[0].id))

    def _spare(self, job: Job, held: tuple[Allocation, ...]) -> Sequence[Allocation]:
        """What a job can spare; kept from cycle to cycle for those of which nothing came or went."""
        known = self._spares.get(job.id)
        if known is None or known[0] is not job or known[1] is not held:
            spare = expendable(job, held) if stands(job, held) else ()
            known = self._spares[job.id] = (job, held, spare)
        return known[2]

    def surplus(self, job: Job) -> tuple[list[Allocation], Freed]:
        """What others can spare for a job that waits, and what that would free."""
        known = self._known.get(job.priority)
        if known is None:
            tasks = [
                task for giver, spare in self._givers if giver.priority <= job.priority for task in spare
            ]
            known = self._known[job.priority] = (tasks, Freed.of(self._session.snapshot.fleet, tasks))
        return known

    def afford(self, job: Job, asked: dict[FlavorResource, int]) -> bool:
        """Whether quota may be enough for a job when all that others can spare for it is given up."""
        freed = self._charged.get(job.priority)
        if freed is None:
            freed = self._charged[job.priority] = charged(self.surplus(job)[0])
        tree, leaf = self._session.snapshot.quota, self._queue.quota_node
        # What counts at a parent is lower by that much at most.
        return all(
            at_least(tree.available(leaf, key, dict.fromkeys(tree.path(leaf), freed.get(key, 0))), amount)
            for key, amount in asked.items()
        )


class Elastic:
    """Surplus is lent: it goes to jobs that run when nobody waits for it, and comes back when one does.

    Giving up: for a waiting job, tasks of elastic jobs of the same queue and of no higher priority that
    their gangs can spare; only when the waiting job then starts. Growing: one task at a time, jobs of
    higher priority first, then those at their minimum, then the older ones. A gang that lost tasks gets
    its minimum back first, whoever waits: it is no use to anybody as it is. Source of the order of
    growing: KAI-Scheduler's elastic plug-in.
    """

    name = "elastic"

    def run(self, session: Session) -> None:
        """Give up first, then grow."""
        attempt = Attempt(session.snapshot, session.placer, session.config.preemption.eviction_cap)
        bounds = Bounds(session.snapshot, session.placer, session.likes)
        for queue in session.queues():
            dynamic = queue.allocation_mode is AllocationMode.DYNAMIC
            if queue.stop_policy is StopPolicy.NONE and dynamic and session.snapshot.watch.elastic[queue.id]:
                self._give_up(session, attempt, bounds, queue)
        moving = any(decision.kind is DecisionKind.MIGRATE for decision in session.decisions)
        if not moving:
            self._grow(session, attempt, bounds)

    # Giving up

    def _give_up(self, session: Session, attempt: Attempt, bounds: Bounds, queue: Queue) -> None:
        tries, lenders, failed = JOBS_TRIED, Lenders(session, queue), set[int]()
        for job_id in list(session.line(queue)):
            job, known = session.job(job_id), session.outcomes.get(job_id)
            if known is not None and known.status is OutcomeStatus.ADMITTED:
                continue
            like = session.likes.of(job)
            if like not in failed and _may_ask(session, job, known) and tries:
                tries -= 1
                if self._make_way(session, attempt, bounds, queue, job, lenders):
                    lenders = Lenders(session, queue)
                    failed.clear()
                else:
                    failed.add(like)
            if queue.strategy is Strategy.STRICT_FIFO:
                return

    def _make_way(
        self,
        session: Session,
        attempt: Attempt,
        bounds: Bounds,
        queue: Queue,
        job: Job,
        lenders: Lenders,
    ) -> bool:
        surplus, freed = lenders.surplus(job)
        more, wanted = bounds.lacking(queue, job) if surplus else ({}, None)
        if not more:
            return False
        if wanted is not None:
            near = [each for each in wanted if bounds.may_fit((each,), freed)]
            flavors = [board.question.flavor for board, _ in near]
            if not any(lenders.afford(job, asked_of(job, more, flavor)) for flavor in flavors):
                return False
        counted = None if wanted is None else bounds.seats(wanted)
        found = surrender(session.snapshot, attempt, queue, job, more, surplus, counted)
        if found is None or not found.leaving:
            return False
        by_job: defaultdict[str, list[Allocation]] = defaultdict(list)
        for task in found.leaving:
            by_job[task.job].append(task)
        for giver in sorted(by_job):
            release(session, session.job(giver), by_job[giver], beneficiary=job.id)
        with session.snapshot.statement() as statement:
            for seat in found.seats:
                statement.allocate(seat)
            statement.commit()
        numbers: dict[str, int | str] = {"tasks": len(found.leaving), "jobs": len(by_job)}
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=job.id,
                allocations=found.seats,
                released=tuple(task.id for task in found.leaving),
                numbers=numbers,
            )
        )
        session.record(
            Outcome(
                job=job.id,
                status=OutcomeStatus.WAITING,
                reason=Reason.WAITING_FOR_PREEMPTED,
                numbers=numbers,
            )
        )
        return True

    # Growing

    def _grow(self, session: Session, attempt: Attempt, bounds: Bounds) -> None:
        kept = frozenset() if session.config.housekeeping.grow_past_waiting else _wanted(session)
        heap = [
            (_rank(session, job), job.id)
            for job in _short(session)
            if _broken(session, job) or kept.isdisjoint(_flavors(session, job))
        ]
        heapq.heapify(heap)
        grown: dict[str, list[Allocation]] = {}
        most = session.config.housekeeping.grown_per_cycle
        while heap and (most is None or sum(map(len, grown.values())) < most):
            _, job_id = heapq.heappop(heap)
            job = session.job(job_id)
            queue = session.snapshot.queues[job.queue]
            more, wanted = bounds.lacking(queue, job)
            if not more or (wanted is not None and not bounds.fit(wanted)):
                continue
            with session.snapshot.statement() as statement:
                seats = attempt.start(statement, queue, job, more)
                if isinstance(seats, Refusal) or not seats:
                    continue
                statement.commit()
            grown.setdefault(job_id, []).extend(seats)
            if kept.isdisjoint(_flavors(session, job)):
                heapq.heappush(heap, (_rank(session, job), job_id))
        for job_id, placed in grown.items():
            session.counters["grown"] += len(placed)
            session.decisions.append(Decision(kind=DecisionKind.GROW, job=job_id, allocations=tuple(placed)))


def _may_ask(session: Session, job: Job, known: Outcome | None) -> bool:
    if job.state is not JobState.QUEUED or job.id in session.snapshot.claims:
        return False
    ready = job.backoff_until is None or job.backoff_until <= session.now
    helped = known is None or known.reason in SURPLUS_HELPS
    return ready and helped and not session.snapshot.holds(job.id)


def _wanted(session: Session) -> frozenset[str]:
    """The flavors that a waiting job could be given."""
    flavors: set[str] = set()
    for queue in session.queues():
        if queue.stop_policy is not StopPolicy.NONE:
            continue
        for job_id in session.line(queue):
            known = session.outcomes.get(job_id)
            if session.job(job_id).state is not JobState.QUEUED:
                continue
            if known is not None and (known.reason is None or known.reason in NOT_FOR_ROOM):
                continue
            flavors.update(name for group in queue.groups for name in group.flavors)
            break
    return frozenset(flavors)


def _short(session: Session) -> list[Job]:
    """Jobs that run or were admitted in this cycle, of which nobody is leaving, and that lack tasks."""
    found = []
    admitted = [decision.job for decision in session.decisions if decision.kind is DecisionKind.ADMIT]
    live = [job for job, _ in running_among(session, session.snapshot.short())]
    jobs = live + [session.job(job_id) for job_id in admitted]
    for job in jobs:
        held = session.snapshot.held(job.id)
        if len(held) + sum(role.ended for role in job.roles) >= sum(role.replicas for role in job.roles):
            continue
        if not any(task.leaving for task in held) and lacks(job, held) is not None:
            found.append(job)
    return found


def _broken(session: Session, job: Job) -> bool:
    return not stands(job, session.snapshot.held(job.id))


def _flavors(session: Session, job: Job) -> set[str]:
    return {task.flavor for task in session.snapshot.held(job.id)}


def _rank(session: Session, job: Job) -> tuple[int, int, float, str]:
    """Higher priority first; then gangs below their minimum, those at it, those above; then the older."""
    held = session.snapshot.held(job.id)
    size = (2 if expendable(job, held) else 1) if stands(job, held) else 0
    return (-job.priority, size, job.submitted_at, job.id)
