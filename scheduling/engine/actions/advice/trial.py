"""This module decides whether a job would start, or why it would wait, with other settings or quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from scheduling.engine.actions.admission.excluded_flavors import (
    are_all_excluded,
    find_excluded_flavors,
    least_severe_refusal,
)
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator
from scheduling.engine.actions.admission.readmission_headroom import find_headroom_refusal
from scheduling.engine.actions.lasting_refusals import find_beyond_limits, has_single_flavor_tasks
from scheduling.engine.gang import RefusalCache
from scheduling.engine.model import (
    FlavorResource,
    Job,
    JobState,
    Preference,
    Queue,
    Reason,
    StopPolicy,
    WhenCan,
)
from scheduling.engine.placement.feasibility import InfeasibleFlavors, find_infeasible_flavors
from scheduling.engine.placement.index.volumes import CLAIM, reason_of_claim
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot

REASONS_BY_SEVERITY = (
    Reason.NO_ROOM,
    Reason.VOLUME_NODE_CONFLICT,
    Reason.WAITING_FOR_BORROWED,
    Reason.WAITING_FOR_QUOTA,
    Reason.POLICY_DENIED,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.VOLUME_CLAIM_UNREAD,
    Reason.VOLUME_CLAIM_NOT_BOUND,
    Reason.VOLUME_NODES_TOO_SMALL,
    Reason.NEVER_FITS,
)
"""Reasons from the least to the most fundamental; all other reasons come before them."""


def is_improvement(before: Reason, after: Reason | None) -> bool:
    """Return whether the reason after a change is less fundamental than the one before."""
    return after is None or _severity(after) < _severity(before)


def _severity(reason: Reason) -> int:
    return REASONS_BY_SEVERITY.index(reason) if reason in REASONS_BY_SEVERITY else -1


class FeasibilityTrial:
    """Tries jobs in the empty cell."""

    def __init__(self, snapshot: Snapshot, rule: PlacementRule) -> None:
        self.snapshot, self._rule = snapshot, rule
        self.trial_count = 0

    def reason_when_empty(self, queue: Queue, job: Job) -> Reason | None:
        """Return NEVER_FITS, or None if the job could start in the empty cell."""
        self.trial_count += 1
        possible = find_infeasible_flavors(self.snapshot, self._rule, queue, job)
        return Reason.NEVER_FITS if possible is None else None


class StartTrial(FeasibilityTrial):
    """Tries jobs in the state at the end of a cycle; nothing is changed or cached by job."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.snapshot, session.tools.rule)
        self._session = session
        self._nominator = Nominator(session, may_preempt=False)

    def reason_to_wait(
        self, queue: Queue, job: Job, raised: Mapping[FlavorResource, int] | None = None
    ) -> Reason | None:
        """Return what the job would wait for if it were the only pending job; None if it would start.

        `raised` is added to the nominal quota of its queue. No victims are considered.
        """
        with self._session.snapshot.quota.raised(queue.quota_node, raised or {}):
            return self._reason(queue, job)

    def _reason(self, queue: Queue, job: Job) -> Reason | None:
        session = self._session
        infeasible: InfeasibleFlavors = frozenset()
        self.trial_count += 1
        if has_single_flavor_tasks(session, queue):
            possible = find_infeasible_flavors(self.snapshot, self._rule, queue, job)
            if possible is None:
                return Reason.NEVER_FITS
            infeasible = possible
            if find_beyond_limits(session, queue, job, infeasible) is not None:
                return Reason.EXCEEDS_MAX_QUOTA
        if session.allowances.find_denial(queue, job, infeasible) is not None:
            return Reason.POLICY_DENIED
        if queue.stop_policy is not StopPolicy.NONE:
            return Reason.QUEUE_STOPPED
        if job.state is JobState.SUSPENDED:
            return Reason.SUSPENDED
        if job.backoff_until is not None and job.backoff_until > session.now:
            return Reason.BACKOFF
        excluded = find_excluded_flavors(session, queue, job)
        refusal: Refusal | None = None
        if not are_all_excluded(session, queue, excluded):
            refusal = self._refusal(queue, job, frozenset(excluded), infeasible)
            if refusal is None:
                return None
        if excluded:
            assign_without = partial(self._nominator.assign_smallest, queue, job, infeasible=infeasible)
            refusal = least_severe_refusal(assign_without, excluded, refusal) or next(iter(excluded.values()))
        return None if refusal is None else _reported_reason(refusal)

    def _refusal(
        self, queue: Queue, job: Job, excluded_flavors: frozenset[str], infeasible: InfeasibleFlavors
    ) -> Refusal | None:
        session = self._session
        ask = EvaluationRequest(
            RefusalCache(), may_preempt=False, excluded_flavors=excluded_flavors, infeasible=infeasible
        )
        with session.snapshot.statement() as statement:
            entry = self._nominator.evaluate_job(statement, queue, job, ask)
            refusal = find_headroom_refusal(session, entry, charged=True) if entry.fits else entry.refusal
            if refusal is not None:
                return refusal.resolve_numbers()
        if not _may_prefer_preemption(queue):
            return None
        # A cycle may wait for victims in one flavor although the job fits in another.
        with session.snapshot.statement() as statement:
            request = replace(ask, refusals=RefusalCache(), may_preempt=True)
            entry = Nominator(session, may_preempt=True).evaluate_job(statement, queue, job, request)
            return None if entry.refusal is None else entry.refusal.resolve_numbers()


def _reported_reason(refusal: Refusal) -> Reason:
    """Return the reason that is reported for a job with this refusal."""
    due_to_claim = refusal.reason is Reason.NO_ROOM and CLAIM in refusal.numbers
    return reason_of_claim(refusal.numbers) if due_to_claim else refusal.reason


def _may_prefer_preemption(queue: Queue) -> bool:
    """Return whether the rules of a queue may choose a flavor with victims before one in which a job fits."""
    rules = queue.fungibility
    default = rules.preference is Preference.BORROWING_OVER_PREEMPTION
    return not default or rules.when_can_preempt is WhenCan.MAY_STOP_SEARCH
