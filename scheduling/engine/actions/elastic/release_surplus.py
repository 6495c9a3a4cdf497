"""This module releases surplus tasks of elastic jobs for pending jobs of their queue."""

from __future__ import annotations

from collections import defaultdict

from quotas.tree import is_at_least
from scheduling.engine.actions.elastic.surplus_index import SurplusIndex, SurplusTasks
from scheduling.engine.actions.eviction import evict_tasks
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds, WantedSlots
from scheduling.engine.gang.shrink import ShrinkPlan, ShrinkRequest, find_shrink_plan
from scheduling.engine.model import (
    Allocation,
    AllocationMode,
    Decision,
    DecisionKind,
    FlavorResource,
    Job,
    JobOutcome,
    JobState,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import compute_job_demand

REASONS_SURPLUS_HELPS = (Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED, Reason.NO_ROOM)
MAX_SHAPES_PER_QUEUE = 16


class SurplusRelease:
    """Releases surplus tasks for pending jobs that then start."""

    def __init__(self, session: Session, attempt: StartAttempt, bounds: SlotBounds) -> None:
        self._session, self._attempt, self._bounds = session, attempt, bounds
        self._surplus_index = SurplusIndex(session.snapshot)
        self._candidates_by_queue = {
            queue.id: jobs for queue in session.sorted_queues() if (jobs := self._candidates(queue))
        }

    def release_surplus(self) -> None:
        """Examine the pending jobs of each queue in order, at most `MAX_SHAPES_PER_QUEUE` shapes of each."""
        for name, jobs in self._candidates_by_queue.items():
            queue = self._session.snapshot.queues[name]
            tries, failed = MAX_SHAPES_PER_QUEUE, set[int]()
            for job in jobs:
                job_class = self._session.equivalence.class_of(job)
                if job_class in failed or not tries:
                    continue
                tries -= 1
                if self._release_for(queue, job):
                    self._surplus_index = SurplusIndex(self._session.snapshot)
                    failed.clear()
                else:
                    failed.add(job_class)

    def _candidates(self, queue: Queue) -> list[Job]:
        """Return the jobs of a queue that may be helped, in its order."""
        session, found = self._session, list[Job]()
        dynamic = queue.allocation_mode is AllocationMode.DYNAMIC
        if queue.stop_policy is not StopPolicy.NONE or not dynamic:
            return found
        if not session.snapshot.live_jobs.elastic[queue.id]:
            return found
        for job_id in session.pending_jobs(queue):
            job, known = session.get_job(job_id), session.outcomes.get(job_id)
            if known is not None and known.status is OutcomeStatus.ADMITTED:
                continue
            if _may_be_helped(session, job, known):
                found.append(job)
            if queue.strategy is Strategy.STRICT_FIFO:
                break
        return found

    def _release_for(self, queue: Queue, job: Job) -> bool:
        surplus = self._surplus_index.find_surplus(queue.id, job.priority)
        missing, wanted = self._bounds.find_missing(queue, job) if surplus.tasks else ({}, None)
        reachable = None if wanted is None else self._slots_in_reach(wanted, surplus)
        if not missing or (
            reachable is not None and not self._any_affordable(queue, job, missing, reachable, surplus)
        ):
            return False
        request = ShrinkRequest(
            queue, job, missing, None if reachable is None else self._bounds.free_slot_counters(reachable)
        )
        found = find_shrink_plan(self._session.snapshot, self._attempt, request, surplus.tasks)
        if found is None or not found.released:
            return False
        self._carry_out(job, found)
        return True

    def _slots_in_reach(self, wanted: WantedSlots, surplus: SurplusTasks) -> WantedSlots:
        """Return the flavors with enough slots for a job once all of the surplus has ended."""
        return tuple(each for each in wanted if self._bounds.may_fit_after((each,), surplus.freed))

    def _any_affordable(
        self, queue: Queue, job: Job, missing: dict[str, int], reachable: WantedSlots, surplus: SurplusTasks
    ) -> bool:
        flavors = (board.question.flavor for board, _ in reachable)
        return any(
            self._affordable(queue, compute_job_demand(job, missing, flavor), surplus) for flavor in flavors
        )

    def _affordable(self, queue: Queue, asked: dict[FlavorResource, int], surplus: SurplusTasks) -> bool:
        tree, leaf, freed = self._session.snapshot.quota, queue.quota_node, surplus.charged
        # The usage of each parent drops by that amount at most.
        return all(
            is_at_least(tree.available(leaf, key, dict.fromkeys(tree.path(leaf), freed.get(key, 0))), amount)
            for key, amount in asked.items()
        )

    def _carry_out(self, job: Job, found: ShrinkPlan) -> None:
        """Shrink the jobs with surplus, and claim what becomes free for the pending job."""
        session, by_job = self._session, defaultdict[str, list[Allocation]](list)
        for task in found.released:
            by_job[task.job].append(task)
        for shrunk_job in sorted(by_job):
            evict_tasks(session, session.get_job(shrunk_job), by_job[shrunk_job], beneficiary=job.id)
        with session.snapshot.statement() as statement:
            for allocation in found.allocations:
                statement.allocate(allocation)
            statement.commit()
        numbers: dict[str, int | str] = {"tasks": len(found.released), "jobs": len(by_job)}
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=job.id,
                allocations=found.allocations,
                released=tuple(task.id for task in found.released),
                numbers=numbers,
            )
        )
        session.record_outcome(JobOutcome.waiting(job.id, Reason.WAITING_FOR_PREEMPTED, numbers))


def _may_be_helped(session: Session, job: Job, known: JobOutcome | None) -> bool:
    if job.state is not JobState.QUEUED or job.id in session.snapshot.claims:
        return False
    ready = job.backoff_until is None or job.backoff_until <= session.now
    helped = known is None or known.reason in REASONS_SURPLUS_HELPS
    return ready and helped and not session.snapshot.count_tasks(job.id)
