"""The action that moves running tasks together so that a waiting job finds room.

A move costs the mover what it has not saved, so moves are made for a waiting job only, and only when
that job then starts: nothing is tidied up on suspicion. Every mover has its new place before it gives up
the old one.
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
    new_start_attempt,
    would_borrow,
)
from scheduling.engine.actions.eviction import find_running_jobs
from scheduling.engine.actions.head_estimate import estimate_head
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    EvictRule,
    Job,
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.order.orders import OWNED
from scheduling.engine.order.protocols import Candidate
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import asked_of

# Of how many differently shaped jobs of one user in one queue it is asked whether moves would help.
MAX_SHAPES_PER_USER = 64
SHORTAGE_REASONS = (Reason.NO_ROOM, Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


class Consolidation:
    """Opens room for waiting jobs whose quota is free, within the bounds of the configuration.

    Meant to come last in a cycle: what a mover gives up is claimed by the job it moved for.
    """

    name = "consolidate"

    def run(self, session: Session) -> None:
        """Waiting jobs in the cycle's order; each that can be helped gets a claim."""
        session.counters["moved"] += 0
        if session.planned_moves is not None:
            self._move(session, *session.planned_moves)
            return
        failed: set[Hashable] = set()
        gains, options = ConsolidationSearch(session), session.config.consolidation
        for queue, job in self._waiting(session):
            like = (queue.id, session.equivalence.class_of(job), bool(session.snapshot.holds(job.id)))
            if gains.searches >= options.jobs_tried or session.counters["moved"] >= options.moves_per_cycle:
                return
            if like in failed:
                continue
            gain = gains.find_gain(queue, job)
            if gain is None:
                failed.add(like)
                continue
            self._move(session, queue, job, gain)
            gains.movable_tasks.exclude_jobs(move.before.job for move in gain.plan.moves)
        if options.with_evictions and not session.counters["moved"]:
            self._make_way(session, gains)

    def preview_gain(self, session: Session, job: Job) -> ConsolidationGain | None:
        """What moving others would give this job now, or None; changes nothing."""
        return ConsolidationSearch(session).find_gain(session.snapshot.queues[job.queue], job)

    def _waiting(self, session: Session) -> Iterator[tuple[Queue, Job]]:
        """Jobs that wait for room, in the order in which the cycle would look at them; those that stay
        inside what their queue owns come first."""
        candidates: list[Candidate] = []
        tree = session.snapshot.quota
        # Mostly all were told that they wait for something else, and there may be thousands.
        told = (
            session.outcomes.keys() - session.lacking_room
            if session.lacking_room
            else session.outcomes.keys()
        )
        for queue in session.sorted_queues():
            if queue.stop_policy is not StopPolicy.NONE:
                continue
            ready = list(self._ready(session, filterfalse(told.__contains__, session.pending_jobs(queue))))
            if queue.strategy is Strategy.STRICT_FIFO:
                del ready[1:]
            levels = (estimate_head(session, tree, queue, job).borrow_level for job in ready)
            candidates += map(Candidate, ready, levels)
        if session.config.consolidation.for_growth:
            candidates += [Candidate(job) for job, _ in find_running_jobs(session) if job.preemptible]
        for candidate in sorted(session.sort_candidates(candidates), key=OWNED.key):
            yield session.snapshot.queues[candidate.job.queue], candidate.job

    def _ready(self, session: Session, waiting: Iterable[str]) -> Iterator[Job]:
        """Those of a line that may be helped. Of each user only so many differently shaped ones are priced,
        so that nobody makes a cycle long by asking for each job in another way."""
        shapes: defaultdict[str, set[int]] = defaultdict(set)
        jobs, likes, full = session.snapshot.jobs, session.equivalence, set[str]()
        for job in map(jobs.__getitem__, waiting):
            if job.user in full and likes.class_of(job) not in shapes[job.user]:
                continue
            if self._may_be_helped(session, job):
                known = shapes[job.user]
                known.add(likes.class_of(job))
                if len(known) >= MAX_SHAPES_PER_USER:
                    full.add(job.user)
                yield job

    def _may_be_helped(self, session: Session, job: Job) -> bool:
        """Whether a job that lacks room, as far as is known, might be given some."""
        known = session.outcomes.get(job.id)
        ready = job.backoff_until is None or job.backoff_until <= session.now
        free = not session.snapshot.holds(job.id) and job.id not in session.snapshot.claims
        allowed = job.preemptible or not session.config.consolidation.preemptible_only
        # Seats are looked for in every flavor, and without asking what a user may hold.
        limited = job.barred or (job.allowances and known is None)
        return job.state is JobState.QUEUED and ready and free and allowed and not limited

    def _make_way(self, session: Session, gains: ConsolidationSearch) -> None:
        """Evict and move together for jobs that have a right to room and find none."""
        if not any(known.reason in SHORTAGE_REASONS for known in session.outcomes.values()):
            return
        for queue in session.sorted_queues():
            for wanting in islice(_wantings(session, queue), session.config.consolidation.jobs_tried):
                way = find_evictions_and_moves(session, wanting, gains)
                if way is not None:
                    evict_victims(session, wanting.job, way)
                    self._move(
                        session, queue, wanting.job, compute_gain(session, way.move_plan), way.released
                    )
                    # Victims are looked for among those who stand where they stood when the cycle began.
                    return

    def _move(
        self, session: Session, queue: Queue, job: Job, gain: ConsolidationGain, evicted: tuple[str, ...] = ()
    ) -> None:
        moves, seats = gain.plan.moves, gain.plan.allocations
        with session.snapshot.statement() as statement:
            for move in moves:
                statement.release(move.before.id)
            for allocation in (*seats, *(move.after for move in moves)):
                statement.allocate(allocation)
            statement.commit()
        session.counters["moved"] += len(moves)
        by_job: dict[str, list[tuple[Allocation, Allocation]]] = {}
        for move in moves:
            by_job.setdefault(move.before.job, []).append((move.before, move.after))
        for mover in sorted(by_job):
            session.decisions.append(
                Decision(
                    kind=DecisionKind.MIGRATE,
                    job=mover,
                    rule=EvictRule.CONSOLIDATION,
                    beneficiary=job.id,
                    allocations=tuple(after for _, after in by_job[mover]),
                    released=tuple(before.id for before, _ in by_job[mover]),
                )
            )
        self._claim(session, job, gain, evicted)

    def _claim(self, session: Session, job: Job, gain: ConsolidationGain, evicted: tuple[str, ...]) -> None:
        # Seats may lie where movers of an earlier claim of this cycle still stand.
        moving = (
            task_id
            for decision in session.decisions
            if decision.kind is DecisionKind.MIGRATE
            for task_id in decision.released
        )
        leaving = (*evicted, *moving)
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
                released=tuple(dict.fromkeys(leaving)),
                beneficiary=job.id,
                rule=EvictRule.CONSOLIDATION,
                numbers=numbers,
            )
        )
        session.allowances.record_use(job, gain.plan.allocations)
        session.record_outcome(
            Outcome(
                job=job.id,
                status=OutcomeStatus.WAITING,
                reason=Reason.WAITING_FOR_PREEMPTED,
                numbers=numbers,
            )
        )


def _wantings(session: Session, queue: Queue) -> Iterator[EntitledJob]:
    """The jobs of a queue that stay inside what it owns and find no room, of those that are alike the first;
    of a queue that starts in order alone its head, if it is such a job."""
    ranks = session.queue_classes(queue).by_user.values()
    if queue.strategy is Strategy.STRICT_FIFO:
        first = sorted(own[0][0] for own in ranks)[:1]
    else:
        # Of thousands that differ few were told anything yet.
        first = sorted(entry for own in ranks for entry, _ in own if entry[1] in session.outcomes)
    for _, job_id in first:
        wanting = _wanting(session, queue, session.get_job(job_id))
        if wanting is not None:
            yield wanting


def _wanting(session: Session, queue: Queue, job: Job) -> EntitledJob | None:
    """The job with its right to room; None where it has none, or where it waits for something else."""
    known = session.outcomes.get(job.id)
    gated = job.preempts_after is not None and job.preempts_after > session.now
    if known is None or known.reason not in SHORTAGE_REASONS or gated or session.snapshot.holds(job.id):
        return None
    more, flavor = new_start_attempt(session).find_missing(job), first_placed_flavor(session, queue)
    if not more or flavor is None:
        return None
    asked = asked_of(job, more, flavor)
    if would_borrow(session, queue, asked):
        return None
    hardest = find_hardest_task(session, job, more, flavor)
    return None if hardest is None else EntitledJob(queue, job, more, asked, hardest)
