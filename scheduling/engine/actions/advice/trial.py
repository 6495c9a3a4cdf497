"""Whether a job would start, or what it would wait for, if it or its queue's quota were another."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.engine.actions.admission.nominate import Ask, Nominator, Victims
from scheduling.engine.actions.admission.shut import all_shut, shut_flavors, told_over_all
from scheduling.engine.actions.admission.spare import too_little_spare
from scheduling.engine.actions.lasting_refusals import find_beyond_limits, has_single_flavor_tasks
from scheduling.engine.gang import RefusalCache
from scheduling.engine.model import FlavorResource, Job, JobState, Queue, Reason, StopPolicy
from scheduling.engine.placement.feasibility import InfeasibleFlavors, find_infeasible_flavors
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot

REASONS_BY_SEVERITY = (
    Reason.NO_ROOM,
    Reason.WAITING_FOR_BORROWED,
    Reason.WAITING_FOR_QUOTA,
    Reason.POLICY_DENIED,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.NEVER_FITS,
)
"""From what is lacking least to what is most fundamental; other reasons come before all of them."""


def is_improvement(before: Reason, after: Reason | None) -> bool:
    """Whether what a job waits for then is less fundamental than what it waited for before."""
    return after is None or _gravity(after) < _gravity(before)


def _gravity(reason: Reason) -> int:
    return REASONS_BY_SEVERITY.index(reason) if reason in REASONS_BY_SEVERITY else -1


class FeasibilityTrial:
    """Tries jobs in the empty cell."""

    def __init__(self, snapshot: Snapshot, rule: PlacementRule) -> None:
        self.snapshot, self._rule = snapshot, rule
        self.trial_count = 0

    def reason_when_empty(self, queue: Queue, job: Job) -> Reason | None:
        """NEVER_FITS, or None where the job could start there."""
        self.trial_count += 1
        possible = find_infeasible_flavors(self.snapshot, self._rule, queue, job)
        return Reason.NEVER_FITS if possible is None else None


class StartTrial(FeasibilityTrial):
    """Tries jobs in the state at the end of a cycle; changes nothing, and keeps nothing by job."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.snapshot, session.tools.rule)
        self._session = session
        self._nominator = Nominator(session, Victims.NONE)

    def reason_to_wait(
        self, queue: Queue, job: Job, raised: Mapping[FlavorResource, int] | None = None
    ) -> Reason | None:
        """What the job would wait for, were it the only one that does; None where it would start.

        `raised` is by how much the nominal of its queue is higher then. Nobody is asked to leave for it.
        """
        with self._session.snapshot.quota.raised(queue.quota_node, raised or {}):
            return self._reason(queue, job)

    def _reason(self, queue: Queue, job: Job) -> Reason | None:
        session = self._session
        dead: InfeasibleFlavors = frozenset()
        self.trial_count += 1
        if has_single_flavor_tasks(session, queue):
            possible = find_infeasible_flavors(self.snapshot, self._rule, queue, job)
            if possible is None:
                return Reason.NEVER_FITS
            dead = possible
            if find_beyond_limits(session, queue, job, dead) is not None:
                return Reason.EXCEEDS_MAX_QUOTA
        if session.allowances.find_denial(queue, job, dead) is not None:
            return Reason.POLICY_DENIED
        if queue.stop_policy is not StopPolicy.NONE:
            return Reason.QUEUE_STOPPED
        if job.state is JobState.SUSPENDED:
            return Reason.SUSPENDED
        if job.backoff_until is not None and job.backoff_until > session.now:
            return Reason.BACKOFF
        shut = shut_flavors(session, queue, job)
        refusal: Refusal | None = None
        if not all_shut(session, queue, shut):
            refusal = self._refusal(queue, job, frozenset(shut), dead)
            if refusal is None:
                return None
        if shut:
            quota = self._nominator.quota_of(queue, job, dead)
            refusal = told_over_all(quota, shut, refusal) or next(iter(shut.values()))
        return None if refusal is None else refusal.reason

    def _refusal(
        self, queue: Queue, job: Job, shunned: frozenset[str], dead: InfeasibleFlavors
    ) -> Refusal | None:
        session = self._session
        ask = Ask(RefusalCache(), leave=False, shunned=shunned, dead=dead)
        with session.snapshot.statement() as statement:
            entry = self._nominator.nominate(statement, queue, job, ask)
            refusal = too_little_spare(session, entry, charged=True) if entry.fits else entry.refusal
            return None if refusal is None else refusal.told()
