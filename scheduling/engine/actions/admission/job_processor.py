"""This module processes jobs one by one against one changing state: each starts, gets a claim, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from scheduling.engine.actions.admission.awaited_releases import AwaitedReleases
from scheduling.engine.actions.admission.backfill import Backfill
from scheduling.engine.actions.admission.cheaper_moves import find_cheaper_moves
from scheduling.engine.actions.admission.claims import ActiveClaims
from scheduling.engine.actions.admission.decision_recorder import DecisionRecorder
from scheduling.engine.actions.admission.direct_start import DirectStart
from scheduling.engine.actions.admission.excluded_flavors import (
    are_all_excluded,
    find_excluded_flavors,
    least_severe_refusal,
)
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob, refuse_gated
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator
from scheduling.engine.actions.admission.readmission_headroom import (
    find_headroom_refusal,
    must_leave_headroom,
)
from scheduling.engine.gang import RefusalCache
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.gang.moves import SearchBudget
from scheduling.engine.model import Allocation, Job, JobOutcome, Queue, Reason, Verdict
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, Refusal
from scheduling.engine.session.session import Session

UNASSIGNED = Assignment(roles=())


class JobProcessor:
    """The state that all evaluations of one action share."""

    def __init__(
        self, session: Session, nominator: Nominator, future_view: FutureView, claims: ActiveClaims
    ) -> None:
        self._session = session
        self._claims = claims
        self._snapshot = session.snapshot
        self._nominator = nominator
        self._future_view = future_view
        self._refusals = RefusalCache()
        self._future_refusals = (0, RefusalCache())
        self._backfill = Backfill(session, nominator, future_view)
        self._awaited_releases = AwaitedReleases(session.snapshot, future_view)
        self._direct_start = DirectStart(session, nominator)
        # The queues and equivalence classes of the jobs that started directly.
        self._started: set[tuple[str, int]] = set()
        self._budget = SearchBudget(session.config.consolidation.placement_budget)
        self.recorder = DecisionRecorder(session, future_view)

    def start_directly(self, queue: Queue, job: Job) -> JobOutcome | None:
        """Start a job that needs no evaluation; None where only `process_job` decides."""
        if self._future_view or self._claims:
            return None
        self._future_view.show_present()
        nominated = self._direct_start.place_job(queue, job)
        if nominated is None:
            return None
        if self._backfill.find_conflict(nominated) is not None:
            for allocation in nominated.placed:
                self._snapshot.remove_allocation(allocation.id)
            return None
        self._started.add((queue.id, self._session.equivalence.class_of(job)))
        return self._record_start(nominated)

    def has_started_equal(self, queue: Queue, job: Job) -> bool:
        """Return whether an equal job of the queue started directly, so that nothing that lasts keeps this
        one from starting."""
        return (queue.id, self._session.equivalence.class_of(job)) in self._started

    def process_job(self, queue: Queue, job: Job) -> JobOutcome:
        """Evaluate a job against the present state, and act on the result.

        Terminating tasks are seen in two ways: as present when the job is to start now, and as gone (the
        future view) when it is decided whether it needs victims.
        """
        excluded = self._excluded_flavors(queue, job)
        if are_all_excluded(self._session, queue, excluded):
            return self._refused_by_rules(queue, job, excluded)
        passed_claims, excluded_names = self._claims.claims_behind(queue, job), frozenset(excluded)
        with self._claims.without_claims(passed_claims):
            # Nothing starts now that does not fit once all terminations have ended.
            self._future_view.show_present()
            now = None
            if not self._future_view:
                now = self._start_now(queue, job, excluded_names, fresh=bool(passed_claims))
            if isinstance(now, JobOutcome):
                return now
            nominated = now or self._evaluate_future(queue, job, excluded_names, fresh=bool(passed_claims))
            if nominated.fits and now is None:
                self._future_view.show_present()
                now = self._start_now(queue, job, excluded_names, fresh=bool(passed_claims))
                if isinstance(now, JobOutcome):
                    return now
            conflict = self._find_reservation(nominated) if nominated.fits or nominated.targets else None
            if conflict is not None:
                return self.recorder.refuse_job(nominated, conflict, Verdict.RESERVED)
            if nominated.fits or nominated.targets:
                self._future_view.show_present()
            else:
                self._backfill.reserve_start(nominated)
                if excluded:
                    nominated = replace(
                        nominated, refusal=self._overall_refusal(queue, job, excluded, nominated.refusal)
                    )
            return self._claim_or_refuse(nominated, may_move=not passed_claims)

    def reserve_start_before(self, queue: Queue, job: Job) -> Refusal | None:
        """Reserve a start for a job that does not fit before another job of its queue is evaluated.

        The result is the refusal if that is impossible because the job lacks neither quota nor room.
        """
        if not self._backfill.may_reserve(queue, job):
            return None
        self._future_view.show_present()
        with self._snapshot.statement() as statement:
            nominated = self._nominator.evaluate_job(
                statement, queue, job, EvaluationRequest(RefusalCache(), may_preempt=False)
            )
        if nominated.refusal is None:
            return None
        self._backfill.reserve_start(nominated)
        return None if self._backfill.has_reservation(nominated) else nominated.refusal

    def start_claimed_job(self, queue: Queue, job: Job, places: tuple[Allocation, ...]) -> JobOutcome:
        """Start a job at its claimed placement, which is free now."""
        for allocation in places:
            self._snapshot.add_allocation(allocation)
        self._awaited_releases.record_start(places)
        self._backfill.record_placements(places)
        nominated = replace(_unevaluated(queue, job), placed=places)
        return self.recorder.admit_job(nominated, places)

    def find_precluded(self, queue: Queue, job: Job) -> JobOutcome | None:
        """Return the refusal of a job that is excluded from all its flavors for the whole cycle, or None."""
        excluded = self._excluded_flavors(queue, job)
        return (
            self._refused_by_rules(queue, job, excluded)
            if are_all_excluded(self._session, queue, excluded)
            else None
        )

    def may_start(self, queue: Queue, jobs: Iterable[Job]) -> bool:
        """Return whether one of these jobs may fit in the present state, by counting slots."""
        self._future_view.show_present()
        session = self._session
        bounds = SlotBounds(session.snapshot, session.placer, session.equivalence.class_of)
        needed = (bounds.find_missing(queue, job)[1] for job in jobs)
        return any(wanted is None or bounds.fits_now(wanted) for wanted in needed)

    def _excluded_flavors(self, queue: Queue, job: Job) -> Mapping[str, Refusal]:
        if must_leave_headroom(self._session, job):
            self._future_view.show_present()
        return find_excluded_flavors(self._session, queue, job)

    def _refused_by_rules(self, queue: Queue, job: Job, excluded: Mapping[str, Refusal]) -> JobOutcome:
        why = self._overall_refusal(queue, job, excluded, None) or next(iter(excluded.values()))
        nominated = replace(_unevaluated(queue, job), refusal=why)
        self._backfill.reserve_if_overdue(nominated)
        return self.recorder.refuse_job(nominated, why, Verdict.RESERVED)

    def _overall_refusal(
        self, queue: Queue, job: Job, excluded: Mapping[str, Refusal], rest: Refusal | None
    ) -> Refusal | None:
        return least_severe_refusal(partial(self._nominator.assign_smallest, queue, job), excluded, rest)

    def _start_now(
        self, queue: Queue, job: Job, excluded_names: frozenset[str], *, fresh: bool
    ) -> NominatedJob | JobOutcome:
        """Start the job if it fits in the present state and return its outcome; otherwise its evaluation."""
        with self._snapshot.statement() as statement:
            refusals = RefusalCache() if fresh else self._refusals
            request = EvaluationRequest(
                refusals, may_preempt=not self._future_view, excluded_flavors=excluded_names
            )
            nominated = self._nominator.evaluate_job(statement, queue, job, request)
            if nominated.fits:
                conflict = self._backfill.find_conflict(nominated) or find_headroom_refusal(
                    self._session, nominated, charged=True
                )
                if conflict is not None:
                    return self.recorder.refuse_job(nominated, conflict, Verdict.RESERVED)
                statement.commit()
                return self._record_start(nominated)
        return nominated

    def _record_start(self, nominated: NominatedJob) -> JobOutcome:
        """Start a job whose tasks are placed."""
        self._awaited_releases.record_start(nominated.placed)
        self._backfill.record_start(nominated)
        return self.recorder.admit_job(nominated, nominated.placed)

    def _evaluate_future(
        self, queue: Queue, job: Job, excluded_names: frozenset[str], *, fresh: bool
    ) -> NominatedJob:
        """Evaluate the job in the future view, after all terminations.

        `fresh`: more is free for this job than for others, so the shared cache of refusals does not apply.
        """
        self._future_view.show_future()
        if self._future_refusals[0] != self._future_view.change_count:
            self._future_refusals = (self._future_view.change_count, RefusalCache())
        refusals = RefusalCache() if fresh else self._future_refusals[1]
        with self._snapshot.statement() as statement:
            return self._nominator.evaluate_job(
                statement, queue, job, EvaluationRequest(refusals, excluded_flavors=excluded_names)
            )

    def _find_reservation(self, nominated: NominatedJob) -> Refusal | None:
        """Return why a job that fits in the future view, or with victims, must wait for a reservation."""
        self._future_view.show_future()
        if nominated.targets and not self._backfill.holds_for_overdue(nominated):
            return None
        with self._snapshot.statement() as statement:
            for key in self.recorder.victim_tasks(nominated.targets):
                if key in self._snapshot.allocations:
                    statement.release(key)
            for allocation in nominated.placed:
                statement.allocate(allocation)
            return self._backfill.find_conflict(nominated)

    def _claim_or_refuse(self, nominated: NominatedJob, *, may_move: bool) -> JobOutcome:
        """Give the evaluated job a claim, or refuse it. `may_move`: the snapshot shows all claims, so that no
        task moves there."""
        if nominated.fits or nominated.targets:
            conflict = find_headroom_refusal(self._session, nominated, charged=False)
            if conflict is not None:
                return self.recorder.refuse_job(nominated, conflict, Verdict.RESERVED)
            if nominated.targets and (refusal := self._refuse_gated(nominated)) is not None:
                return self.recorder.refuse_job(nominated, refusal, Verdict.GATED)
            gain = (
                find_cheaper_moves(self._session, nominated, self._budget)
                if nominated.targets and may_move
                else None
            )
            if gain is not None:
                self._session.planned_moves = nominated.queue, nominated.job, gain
                return self.recorder.refuse_job(nominated, Refusal(Reason.NO_ROOM), Verdict.NO_ROOM)
            verdict = Verdict.PREEMPTING if nominated.targets else Verdict.DEFERRED
            self._backfill.record_start(nominated)
            return self.recorder.claim_placement(nominated, self._find_awaited(nominated), verdict)
        return self._refuse(nominated)

    def _refuse(self, nominated: NominatedJob) -> JobOutcome:
        refusal = nominated.refusal
        assert refusal is not None  # noqa: S101 - a job without a fit and victims was refused
        if refusal.reason is Reason.NO_ROOM and nominated.mode in (AssignmentMode.NO_FIT, AssignmentMode.FIT):
            return self.recorder.refuse_job(nominated, refusal, Verdict.NO_ROOM)
        if nominated.mode is AssignmentMode.NO_FIT:
            return self.recorder.refuse_job(nominated, refusal, Verdict.NO_FIT)
        return self.recorder.refuse_job(nominated, refusal, Verdict.NO_VICTIMS)

    def _find_awaited(self, nominated: NominatedJob) -> tuple[str, ...]:
        """Return the tasks that must end before the job can start."""
        return self._awaited_releases.find_awaited(nominated, self.recorder.victim_tasks(nominated.targets))

    def _refuse_gated(self, nominated: NominatedJob) -> Refusal | None:
        """Return the refusal of a job that may not preempt yet, or None."""
        at = nominated.job.preempts_after
        if at is None or at <= self._session.now:
            return None
        return refuse_gated(nominated.assignment.refusal or Refusal(Reason.NO_ROOM), at)


def _unevaluated(queue: Queue, job: Job) -> NominatedJob:
    return NominatedJob(job=job, queue=queue, assignment=UNASSIGNED)
