"""The action that lets elastic jobs breathe: they give up surplus for others and grow into idle room."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduling.engine.actions.leaving import release, running
from scheduling.engine.gang.attempt import Attempt
from scheduling.engine.gang.parts import Gang
from scheduling.engine.gang.standing import expendable, standing
from scheduling.engine.gang.surrender import surrender
from scheduling.engine.model import (
    Allocation,
    AllocationMode,
    Decision,
    DecisionKind,
    Job,
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.quota.assignment import Refusal

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

Giver = tuple[Job, Sequence[Allocation]]


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
        for queue in session.queues():
            if queue.stop_policy is StopPolicy.NONE and queue.allocation_mode is AllocationMode.DYNAMIC:
                self._give_up(session, attempt, queue)
        moving = any(decision.kind is DecisionKind.MIGRATE for decision in session.decisions)
        if not moving:
            self._grow(session, attempt)

    # Giving up

    def _give_up(self, session: Session, attempt: Attempt, queue: Queue) -> None:
        tries, givers = JOBS_TRIED, _givers(session, queue)
        for job_id in list(session.line(queue)):
            job, known = session.job(job_id), session.outcomes.get(job_id)
            if known is not None and known.status is OutcomeStatus.ADMITTED:
                continue
            if _may_ask(session, job, known) and tries:
                tries -= 1
                if self._make_way(session, attempt, queue, job, givers):
                    givers = _givers(session, queue)
            if queue.strategy is Strategy.STRICT_FIFO:
                return

    def _make_way(
        self, session: Session, attempt: Attempt, queue: Queue, job: Job, givers: list[Giver]
    ) -> bool:
        surplus = _surplus(givers, job)
        more = attempt.next_piece(job)
        if not surplus or not more:
            return False
        found = surrender(session.snapshot, attempt, queue, job, more, surplus)
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

    def _grow(self, session: Session, attempt: Attempt) -> None:
        kept = frozenset() if session.config.housekeeping.grow_past_waiting else _wanted(session)
        heap = [
            (_rank(session, job), job.id)
            for job in _elastic_jobs(session)
            if _broken(session, job) or kept.isdisjoint(_flavors(session, job))
        ]
        heapq.heapify(heap)
        grown: dict[str, list[Allocation]] = {}
        while heap:
            _, job_id = heapq.heappop(heap)
            job = session.job(job_id)
            more = attempt.next_piece(job)
            if not more:
                continue
            with session.snapshot.statement() as statement:
                seats = attempt.start(statement, session.snapshot.queues[job.queue], job, more)
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


def _givers(session: Session, queue: Queue) -> list[Giver]:
    """Jobs of a queue with what they can spare: lower priority first, then the newest."""
    found = [
        (other, spare)
        for other, staying in running(session, queue)
        if other.preemptible and _stands(other, staying) and (spare := expendable(other, staying))
    ]
    return sorted(found, key=lambda pair: (pair[0].priority, -pair[0].submitted_at, pair[0].id))


def _surplus(givers: list[Giver], job: Job) -> list[Allocation]:
    """What others can spare for a job."""
    return [
        task
        for other, spare in givers
        if other.priority <= job.priority and other.id != job.id
        for task in spare
    ]


def _stands(job: Job, staying: tuple[Allocation, ...]) -> bool:
    return Gang(job).satisfied(standing(job, staying))


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


def _elastic_jobs(session: Session) -> list[Job]:
    """Jobs that run or were admitted in this cycle, of which nobody is leaving, and that lack tasks."""
    found = []
    admitted = [decision.job for decision in session.decisions if decision.kind is DecisionKind.ADMIT]
    jobs = [job for job, _ in running(session)] + [session.job(job_id) for job_id in admitted]
    for job in jobs:
        held = session.snapshot.held(job.id)
        if len(held) + sum(role.ended for role in job.roles) >= sum(role.replicas for role in job.roles):
            continue
        gang, counts = Gang(job), standing(job, held)
        leaving = any(task.leaving for task in held)
        if not leaving and (not gang.satisfied(counts) or gang.step(counts) is not None):
            found.append(job)
    return found


def _broken(session: Session, job: Job) -> bool:
    return not Gang(job).satisfied(standing(job, session.snapshot.held(job.id)))


def _flavors(session: Session, job: Job) -> set[str]:
    return {task.flavor for task in session.snapshot.held(job.id)}


def _rank(session: Session, job: Job) -> tuple[int, int, float, str]:
    """Higher priority first; then gangs below their minimum, those at it, those above; then the older."""
    gang, counts = Gang(job), standing(job, session.snapshot.held(job.id))
    size = (2 if gang.spare(counts) else 1) if gang.satisfied(counts) else 0
    return (-job.priority, size, job.submitted_at, job.id)
