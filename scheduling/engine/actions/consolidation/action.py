"""This module moves running tasks together so that a pending job fits.

A move costs the moved job the work that it has not saved, so tasks are moved for a pending job only, and only
if that job then starts. Each moved task has its new node before it leaves the old one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import filterfalse, islice

from scheduling.engine.actions.consolidation.evict_and_move import (
    EntitledJob,
    evict_victims,
    find_evictions_and_moves,
)
from scheduling.engine.actions.consolidation.search import (
    ConsolidationSearch,
    compute_gain,
    find_hardest_task,
    first_placed_flavor,
    would_borrow,
)
from scheduling.engine.actions.eviction import find_running_jobs
from scheduling.engine.actions.head_estimate import estimate_head
from scheduling.engine.gang.task_counts import find_missing_tasks
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    EvictRule,
    Job,
    JobOutcome,
    JobState,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.order.orders import WITHIN_QUOTA
from scheduling.engine.order.protocols import Candidate
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import compute_job_demand

# At most this many shapes of one user and queue are searched for moves in a cycle.
MAX_SHAPES_PER_USER = 64
SHORTAGE_REASONS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


class Consolidation:
    """Makes pending jobs fit whose quota is free, within the bounds of the configuration.

    It is meant to come last in a cycle: what a moved task leaves is claimed by the pending job.
    """

    name = "consolidate"

    def run(self, session: Session) -> None:
        """Examine pending jobs in the cycle's order; each that can be helped gets a claim."""
        session.counters["moved"] += 0
        if session.planned_moves is not None:
            self._move(session, *session.planned_moves)
            return
        failed: set[Hashable] = set()
        consolidation, options = ConsolidationSearch(session), session.config.consolidation
        for queue, job in self._waiting(session):
            session.check_deadline()
            class_key = (
                queue.id,
                session.equivalence.class_of(job),
                bool(session.snapshot.count_tasks(job.id)),
            )
            if (
                consolidation.searches >= options.max_job_shapes
                or session.counters["moved"] >= options.moves_per_cycle
            ):
                return
            if class_key in failed:
                continue
            gain = consolidation.find_gain(queue, job)
            if gain is None:
                failed.add(class_key)
                continue
            self._move(session, queue, job, gain)
            consolidation.movable_tasks.exclude_jobs(move.before.job for move in gain.plan.moves)
        if options.with_evictions and not session.counters["moved"]:
            self._evict_and_move(session, consolidation)

    def _waiting(self, session: Session) -> Iterator[tuple[Queue, Job]]:
        """Yield the jobs that wait for room in the order in which the cycle would evaluate them; those inside
        their queue's own quota come first."""
        candidates: list[Candidate] = []
        tree = session.snapshot.quota
        # Usually all jobs wait for something else, and there may be thousands.
        with_other_outcome = (
            session.outcomes.keys() - session.lacking_room
            if session.lacking_room
            else session.outcomes.keys()
        )
        for queue in session.sorted_queues():
            if queue.stop_policy is not StopPolicy.NONE:
                continue
            ready = list(
                self._candidates_of_line(
                    session, filterfalse(with_other_outcome.__contains__, session.pending_jobs(queue))
                )
            )
            if queue.strategy is Strategy.STRICT_FIFO:
                del ready[1:]
            levels = (estimate_head(session, tree, queue, job).borrow_level for job in ready)
            candidates += map(Candidate, ready, levels)
        if session.config.consolidation.for_growth:
            candidates += [Candidate(job) for job, _ in find_running_jobs(session) if job.preemptible]
        for candidate in sorted(session.sort_candidates(candidates), key=WITHIN_QUOTA.key):
            yield session.snapshot.queues[candidate.job.queue], candidate.job

    def _candidates_of_line(self, session: Session, waiting: Iterable[str]) -> Iterator[Job]:
        """Yield the jobs of a line that may be helped.

        Of each user only so many different shapes are searched, so that no user makes a cycle long by
        submitting every job in another shape.
        """
        shapes: defaultdict[str, set[int]] = defaultdict(set)
        jobs, equivalence, exhausted_users = session.snapshot.jobs, session.equivalence, set[str]()
        for job in map(jobs.__getitem__, waiting):
            if job.user in exhausted_users and equivalence.class_of(job) not in shapes[job.user]:
                continue
            if self._may_be_helped(session, job):
                known = shapes[job.user]
                known.add(equivalence.class_of(job))
                if len(known) >= MAX_SHAPES_PER_USER:
                    exhausted_users.add(job.user)
                yield job

    def _may_be_helped(self, session: Session, job: Job) -> bool:
        """Return whether a job lacks room, as far as is known, and may be given some."""
        known = session.outcomes.get(job.id)
        ready = job.backoff_until is None or job.backoff_until <= session.now
        free = not session.snapshot.count_tasks(job.id) and job.id not in session.snapshot.claims
        allowed = job.preemptible or not session.config.consolidation.preemptible_only
        # The search covers every flavor and ignores user caps, so limited jobs are left out.
        limited = job.barred or (job.allowances and known is None)
        return job.state is JobState.QUEUED and ready and free and allowed and not limited

    def _evict_and_move(self, session: Session, consolidation: ConsolidationSearch) -> None:
        """Evict and move together for jobs that are entitled to room and find none."""
        if not any(known.reason in SHORTAGE_REASONS for known in session.outcomes.values()):
            return
        for queue in session.sorted_queues():
            for entitled in islice(
                _entitled_jobs(session, queue), session.config.consolidation.max_job_shapes
            ):
                plan = find_evictions_and_moves(session, entitled, consolidation)
                if plan is not None:
                    evict_victims(session, entitled.job, plan)
                    self._move(
                        session, queue, entitled.job, compute_gain(session, plan.move_plan), plan.released
                    )
                    # The search for victims assumes that every task is where it was when the cycle began.
                    return

    def _move(
        self, session: Session, queue: Queue, job: Job, gain: ConsolidationGain, evicted: tuple[str, ...] = ()
    ) -> None:
        moves, allocations = gain.plan.moves, gain.plan.allocations
        with session.snapshot.statement() as statement:
            for move in moves:
                statement.release(move.before.id)
            for allocation in (*allocations, *(move.after for move in moves)):
                statement.allocate(allocation)
            statement.commit()
        session.counters["moved"] += len(moves)
        by_job: dict[str, list[tuple[Allocation, Allocation]]] = {}
        for move in moves:
            by_job.setdefault(move.before.job, []).append((move.before, move.after))
        for moved_job in sorted(by_job):
            session.decisions.append(
                Decision(
                    kind=DecisionKind.MIGRATE,
                    job=moved_job,
                    rule=EvictRule.CONSOLIDATION,
                    beneficiary=job.id,
                    allocations=tuple(after for _, after in by_job[moved_job]),
                    released=tuple(before.id for before, _ in by_job[moved_job]),
                )
            )
        self._claim(session, job, gain, evicted)

    def _claim(self, session: Session, job: Job, gain: ConsolidationGain, evicted: tuple[str, ...]) -> None:
        # The allocations may overlap tasks that an earlier claim of this cycle moves away.
        moving = (
            task_id
            for decision in session.decisions
            if decision.kind is DecisionKind.MIGRATE
            for task_id in decision.released
        )
        terminating = (*evicted, *moving)
        numbers: dict[str, int | str] = {
            "tasks": gain.tasks,
            "jobs": gain.jobs,
            "cards": gain.cards,
            "gpu_seconds": round(gain.gpu_seconds),
        }
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=job.id,
                allocations=gain.plan.allocations,
                released=tuple(dict.fromkeys(terminating)),
                beneficiary=job.id,
                rule=EvictRule.CONSOLIDATION,
                numbers=numbers,
            )
        )
        session.allowances.record_use(job, gain.plan.allocations)
        session.record_outcome(JobOutcome.waiting(job.id, Reason.WAITING_FOR_PREEMPTED, numbers))


def _entitled_jobs(session: Session, queue: Queue) -> Iterator[EntitledJob]:
    """Yield the jobs of a queue that stay inside its own quota and found no room, the first of each class.

    A strict queue yields its head only.
    """
    ranks = session.queue_classes(queue).by_user.values()
    if queue.strategy is Strategy.STRICT_FIFO:
        first = sorted(own[0][0] for own in ranks)[:1]
    else:
        # Of thousands of different jobs few have an outcome yet.
        first = sorted(entry for own in ranks for entry, _ in own if entry[-1] in session.outcomes)
    for entry in first:
        entitled = _entitled_job(session, queue, session.get_job(entry[-1]))
        if entitled is not None:
            yield entitled


def _entitled_job(session: Session, queue: Queue, job: Job) -> EntitledJob | None:
    """Return the job with what it is entitled to; None if it would borrow or waits for something else."""
    known = session.outcomes.get(job.id)
    gated = job.preempts_after is not None and job.preempts_after > session.now
    if known is None or known.reason not in SHORTAGE_REASONS or gated or session.snapshot.count_tasks(job.id):
        return None
    held = session.snapshot.allocations_of(job.id)
    more, flavor = find_missing_tasks(job, held), first_placed_flavor(session, queue)
    if not more or flavor is None:
        return None
    asked = compute_job_demand(job, more, flavor)
    if would_borrow(session, queue, asked):
        return None
    hardest = find_hardest_task(session, job, more, flavor)
    return None if hardest is None else EntitledJob(queue, job, more, asked, hardest)
