"""This module records what was decided: decisions, outcomes and the evaluation of each job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.nominated_job import NominatedJob, claim_outcome
from scheduling.engine.model import (
    Allocation,
    Charge,
    Decision,
    DecisionKind,
    FlavorResource,
    Instant,
    Job,
    JobOutcome,
    OutcomeStatus,
    Verdict,
)
from scheduling.engine.preemption.trials.targets import Target
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import sum_charges, sum_charges_cached

# The counters of evaluations by verdict.
_TURNS = {verdict: f"turns_{verdict.value.replace('-', '_')}" for verdict in Verdict}


class DecisionRecorder:
    """The decisions of one action. The snapshot follows each of them at once."""

    def __init__(self, session: Session, future_view: FutureView) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._future_view = future_view

    def admit_job(self, nominated: NominatedJob, placed: tuple[Allocation, ...]) -> JobOutcome:
        """Admit a job whose tasks are allocated already."""
        session = self._session
        session.counters["admitted"] += 1
        session.counters["placed_tasks"] += len(placed)
        session.decisions.append(
            Decision(
                kind=DecisionKind.ADMIT,
                job=nominated.job.id,
                allocations=placed,
                borrowed=self._newly_borrowed(nominated, placed),
                numbers=_sizes(nominated, placed),
            )
        )
        session.users.charge_user(nominated.queue, nominated.job, placed)
        session.allowances.record_use(nominated.job, placed)
        self.record_turn(nominated, Verdict.ADMITTED)
        return JobOutcome(nominated.job.id, OutcomeStatus.ADMITTED, numbers={"tasks": len(placed)})

    def claim_placement(
        self, nominated: NominatedJob, awaited: tuple[str, ...], verdict: Verdict
    ) -> JobOutcome:
        """Give a job a claim on its placement once `awaited` have ended; its victims are evicted."""
        session = self._session
        for target in nominated.targets:
            self.evict_target(nominated.job, target)
        until = Instant(session.now + session.config.preemption.claim_timeout_s)
        for allocation in nominated.placed:
            self._snapshot.add_allocation(allocation)
        session.allowances.record_use(nominated.job, nominated.placed)
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=nominated.job.id,
                allocations=nominated.placed,
                released=awaited,
                numbers={"until": int(until)},
            )
        )
        session.counters["promised"] += 1
        self.record_turn(nominated, verdict)
        jobs = {self._snapshot.allocations[key].job for key in awaited if key in self._snapshot.allocations}
        return claim_outcome(
            nominated.job, len(awaited), len(jobs), nominated.target_set if nominated.targets else None
        )

    def refuse_job(self, nominated: NominatedJob, refusal: Refusal, verdict: Verdict) -> JobOutcome:
        """Let a job wait."""
        self.record_turn(nominated, verdict)
        return JobOutcome.waiting(nominated.job.id, refusal.reason, refusal.numbers, *refusal.help)

    def withdraw_claim(self, job: Job) -> None:
        """Withdraw a claim that a job before it took over."""
        self._session.allowances.forget_claim(job.id)
        self._session.decisions.append(Decision(kind=DecisionKind.PARK, job=job.id))

    def victim_tasks(self, targets: Iterable[Target]) -> tuple[str, ...]:
        """Return the allocations that victims release."""
        return tuple(
            key
            for target in targets
            for key in (target.tasks or tuple(a.id for a in self._snapshot.allocations_of(target.job)))
        )

    def evict_target(self, beneficiary: Job, target: Target) -> None:
        """Evict a victim for a job."""
        released = self.victim_tasks((target,))
        self._future_view.mark_terminating(released)
        if target.already_leaving:
            return
        self._session.counters["evicted"] += 1
        self._session.decisions.append(
            Decision(
                kind=DecisionKind.SHRINK if target.tasks else DecisionKind.EVICT,
                job=target.job,
                rule=target.rule,
                beneficiary=beneficiary.id,
                released=released,
            )
        )

    def _newly_borrowed(self, nominated: NominatedJob, placed: tuple[Allocation, ...]) -> tuple[Charge, ...]:
        """Return by how much more the job's queue exceeds its own nominal quota than before its start."""
        if nominated.assignment.roles and not nominated.assignment.borrow_level:
            return ()
        tree, leaf = self._snapshot.quota, nominated.queue.quota_node
        found = []
        for key, amount in _sum_charges(placed).items():
            nominal = tree.subtree_quota(leaf, key)
            if nominal is None:
                continue
            above = tree.usage(leaf, key) - nominal
            more = max(above, 0) - max(above - amount, 0)
            if more > 0:
                found.append(Charge(key.flavor, key.resource, more))
        return tuple(sorted(found))

    def record_turn(self, nominated: NominatedJob, verdict: Verdict) -> None:
        """Count the evaluation of a job by its verdict. This is a hook."""
        self._session.counters[_TURNS[verdict]] += 1


def _sum_charges(placed: tuple[Allocation, ...]) -> Mapping[FlavorResource, int]:
    if len(placed) == 1:
        return sum_charges_cached(placed[0].charges)
    return sum_charges(charge for allocation in placed for charge in allocation.charges)


def _sizes(nominated: NominatedJob, placed: tuple[Allocation, ...]) -> dict[str, int | str]:
    """Return the tasks per role as `tasks.<role>`; one allocation for a whole role cannot be counted."""
    sizes: dict[str, int | str] = {f"tasks.{role.role}": role.count for role in nominated.assignment.roles}
    roles = [allocation.role for allocation in placed if allocation.node]
    for role in dict.fromkeys(roles):
        sizes[f"tasks.{role}"] = roles.count(role)
    return sizes
