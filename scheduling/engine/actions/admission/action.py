"""This module runs the action that starts jobs: it orders the heads of queues and processes them one after
the other.

The same class serves two actions: one may choose victims, the other may not. Source of the cycle:
Kueue's scheduler, which orders one head of each queue and processes them one by one against the same state.
Here each head is evaluated right before it is processed, and the next job of its queue follows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from scheduling.engine.actions.admission.claims import ActiveClaims, can_hold
from scheduling.engine.actions.admission.classical_iterator import ClassicalIterator
from scheduling.engine.actions.admission.drain import drain_queues
from scheduling.engine.actions.admission.fair_sharing_iterator import FairSharingIterator
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.job_processor import JobProcessor
from scheduling.engine.actions.admission.nominator import Nominator
from scheduling.engine.actions.admission.readmission_headroom import must_leave_headroom
from scheduling.engine.actions.head_estimate import HeadEstimate, OwnQuotaFit, Tree, estimate_head
from scheduling.engine.actions.lasting_refusals import find_lasting_refusal
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.model import Job, JobOutcome, OutcomeStatus, Queue, StopPolicy
from scheduling.engine.order.orders import WITHIN_QUOTA
from scheduling.engine.session.session import Session


class Admission:
    """Starts the jobs that fit, claims capacity for which victims must end, and gives each job a reason."""

    def __init__(self, name: str, *, may_preempt: bool) -> None:
        self.name = name
        self._may_preempt = may_preempt

    def run(self, session: Session) -> None:
        """Run one pass over the heads of all open queues."""
        AdmissionRound(session, may_preempt=self._may_preempt).run()


class AdmissionRound:
    """One pass of one action over one session."""

    def __init__(self, session: Session, *, may_preempt: bool) -> None:
        self._session = session
        self._may_preempt = may_preempt
        self._future_view = FutureView(session.snapshot)
        self._claims = ActiveClaims(session)
        self._own_quota_fits: dict[str, OwnQuotaFit] = {}
        self._processor = self.new_processor(self.new_nominator())

    def new_nominator(self) -> Nominator:
        """Return the nominator of this round. This is a hook."""
        return Nominator(self._session, may_preempt=self._may_preempt)

    def new_processor(self, nominator: Nominator) -> JobProcessor:
        """Return the processor of this round. This is a hook."""
        return JobProcessor(self._session, nominator, self._future_view, self._claims)

    def run(self) -> None:
        """Process claims of earlier cycles first, then the heads of all open queues."""
        session = self._session
        if self._may_preempt:
            drain_queues(session, self._future_view)
        self._process_claims()
        cursors = {
            queue.id: QueueCursor(
                session, queue, self._future_view.hidden_jobs, partial(self.find_precluded, queue)
            )
            for queue in session.sorted_queues()
            if queue.stop_policy is StopPolicy.NONE
        }
        try:
            self.process_heads(cursors)
        finally:
            self._future_view.show_present()
        for job_id in self._claims.lost_claims():
            self._processor.recorder.withdraw_claim(session.get_job(job_id))
            session.outcomes.pop(job_id, None)

    def _process_claims(self) -> None:
        """Start the jobs whose claims are ready, and book the claims that still wait."""
        for claim, job, queue in self._claims.ready_claims():
            if not self._session.allowances.is_allowed(job, claim.allocations):
                continue
            if can_hold(self._session.snapshot, claim.allocations):
                self._session.record_outcome(self._processor.start_claimed_job(queue, job, claim.allocations))
        for outcome in self._claims.allocate_pending():
            self._session.record_outcome(outcome)

    # The order of heads

    def process_heads(self, cursors: dict[str, QueueCursor]) -> None:
        """Process always the best head until none is left; the next job of its queue follows at once. This is
        a hook.

        Heads are compared by the usage after all terminations.
        """
        self._future_view.show_future()
        tree, queues = self._session.snapshot.quota, self._session.snapshot.queues
        iterator_of_heads = self._new_iterator(
            tree, [self._estimate_queue(cursors[queue.id]) for queue, _ in _heads(cursors)]
        )
        full_at = -1
        if self._is_over(cursors):
            return
        while iterator_of_heads:
            self._session.check_deadline()
            decided = len(self._session.decisions)
            estimate = iterator_of_heads.pop_next()
            self._process(cursors[estimate.queue], estimate.job)
            # With the first eviction of a cycle the usage after all terminations gets a tree of its own.
            iterator_of_heads.tree = self._session.snapshot.future_quota
            if self._session.planned_moves is not None:
                self._session.counters["not_evaluated"] += sum(
                    cursor.head is not None for cursor in cursors.values()
                )
                return
            if not iterator_of_heads:
                self._start_run(cursors[estimate.queue])
            if len(self._session.decisions) == decided != full_at:
                full_at = decided
                if self._is_over(cursors):
                    return
            jobs = (self._session.get_job(decision.job) for decision in self._session.decisions[decided:])
            changed = dict.fromkeys(job.queue for job in jobs if job.queue in queues)
            for name in changed:
                iterator_of_heads.update_leaf(queues[name].quota_node)
            for name in {estimate.queue: None, **changed}:
                cursor = cursors.get(name)
                if cursor is not None and cursor.head is not None:
                    iterator_of_heads.put_head(self._estimate_queue(cursor))

    def _estimate_queue(self, cursor: QueueCursor) -> HeadEstimate:
        """Return the estimate of the job that represents a queue.

        It is the head; but if the head would borrow, it is the first job that fits in the queue's own quota,
        so that a borrower does not take capacity that an owner would then have to reclaim.
        """
        session, tree = self._session, self._session.snapshot.quota
        assert cursor.head is not None  # noqa: S101 - the cursor is not done
        head = estimate_head(session, tree, cursor.queue, cursor.head)
        if not head.borrow_level:
            return head
        if find_lasting_refusal(session, cursor.queue, cursor.head) is not None:
            return replace(head, borrow_level=0)
        job_in_own_quota = cursor.find_first_fitting(self._own_quota_fit(cursor.queue))
        if job_in_own_quota is None:
            return head
        # The head comes before it in their queue and keeps the reservation that it would get at its turn.
        if self._processor.reserve_start_before(cursor.queue, cursor.head) is not None:
            return replace(head, borrow_level=0)
        cursor.promote_job(job_in_own_quota)
        return estimate_head(session, tree, cursor.queue, job_in_own_quota)

    def _own_quota_fit(self, queue: Queue) -> OwnQuotaFit:
        """Return the check of which jobs fit in a queue's own quota, created once a pass."""
        known = self._own_quota_fits.get(queue.id)
        if known is None:
            known = self._own_quota_fits[queue.id] = OwnQuotaFit(self._session, queue)
        return known

    def _is_over(self, cursors: dict[str, QueueCursor]) -> bool:
        """Return whether the pass ends because no remaining job fits in free capacity.

        Claims that are booked count as free capacity for the jobs that come before their holders.
        """
        if not self._session.config.stop_without_free_capacity or self._claims:
            return False
        open_cursors = [cursor for cursor in cursors.values() if cursor.head is not None]
        if any(
            self._processor.may_start(cursor.queue, cursor.remaining_candidates()) for cursor in open_cursors
        ):
            return False
        self._session.counters["not_evaluated"] += len(open_cursors)
        return True

    def _new_iterator(
        self, tree: Tree, heads_in_order: Iterable[HeadEstimate]
    ) -> ClassicalIterator | FairSharingIterator:
        """Return the order of heads: classical, or fair sharing."""
        chain = self._session.tools.cycle_order
        if self._session.config.fair_sharing is None:
            return ClassicalIterator(tree, chain, heads_in_order)
        return FairSharingIterator(tree, (WITHIN_QUOTA, *chain), heads_in_order)

    # One head

    def _process(self, cursor: QueueCursor, job: Job) -> None:
        """Evaluate and process a head."""
        outcome = self._processor.start_directly(cursor.queue, job)
        if outcome is None and not self._processor.has_started_equal(cursor.queue, job):
            outcome = find_lasting_refusal(self._session, cursor.queue, job)
        if outcome is None:
            outcome = self._processor.process_job(cursor.queue, job)
        self.advance_cursor(cursor, outcome)

    def _start_run(self, cursor: QueueCursor) -> None:
        """Start the next jobs of the only queue that has any, as long as they need no evaluation: inside the
        queue's own quota no other job would come first."""
        while cursor.head is not None:
            self._session.check_deadline()
            outcome = self._processor.start_directly(cursor.queue, cursor.head)
            if outcome is None:
                return
            self.advance_cursor(cursor, outcome)

    def find_precluded(self, queue: Queue, job: Job) -> JobOutcome | None:
        """Return the outcome of a job that cannot start whichever jobs come before it; None if that is not
        known.

        Such a job never becomes the head, because it would only block the jobs behind it. This is a hook.
        """
        if (
            not must_leave_headroom(self._session, job)
            or find_lasting_refusal(self._session, queue, job) is not None
        ):
            return None
        outcome = self._processor.find_precluded(queue, job)
        if outcome is not None:
            self._record(outcome)
        return outcome

    def _record(self, outcome: JobOutcome) -> None:
        """Count and record the outcome of an evaluated job."""
        self._session.counters["tried"] += 1
        self._session.record_outcome(outcome)

    def advance_cursor(self, cursor: QueueCursor, outcome: JobOutcome) -> None:
        """Record the outcome of a head, and move its queue's cursor."""
        self._record(outcome)
        if outcome.status is OutcomeStatus.ADMITTED:
            cursor.advance_after_admission()
        else:
            cursor.advance_after_refusal(outcome)


def _heads(cursors: dict[str, QueueCursor]) -> list[tuple[Queue, Job]]:
    return [(cursor.queue, cursor.head) for cursor in cursors.values() if cursor.head is not None]
