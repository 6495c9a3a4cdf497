"""Evictions of jobs, and the claims on the capacity that they release.

Quota, nodes and cards are not released here, but for each pod once it is confirmed gone. Until then the
preemptor's claim exists as a row, so that later cycles evict no more jobs for it.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q

from foundation.audit import audit_log
from foundation.core.actor import SYSTEM
from foundation.sql.prepared import PreparedQuery
from scheduling.commit.batch import CHUNK, CommitBatch
from scheduling.commit.bundles import Bundle
from scheduling.commit.reclaimed_quota import RECLAIMING, find_queue_excess
from scheduling.engine import model as em
from scheduling.engine_input import job_history
from scheduling.engine_input.config import engine_config
from scheduling.lifecycle.job_lifecycle import mark_evicting, note_removal, note_shrink
from scheduling.lifecycle.retry import after_eviction
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import Claim, DecisionKind, IdleStretch, Job, JobState

LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_KINDS: Final = {
    em.DecisionKind.EVICT: DecisionKind.EVICT,
    em.DecisionKind.SHRINK: DecisionKind.SHRINK,
    em.DecisionKind.MIGRATE: DecisionKind.MIGRATE,
}
_THEN: Final = {
    em.EvictRule.TIME_LIMIT: JobState.FAILED,
    em.EvictRule.IDLE: JobState.SUSPENDED,
    em.EvictRule.BUDGET: JobState.SUSPENDED,
}
# Most jobs that start have no claim, so only the existing claims are deleted.
_CLAIMED: Final = PreparedQuery(lambda jobs: Claim.unscoped.filter(job__pk__any_of=jobs).values_list("pk"))


def holds_still(batch: CommitBatch, decision: em.Decision) -> bool:
    """Return whether the job is in a state in which the decision can be carried out."""
    job = batch.jobs[decision.job]
    if decision.kind is em.DecisionKind.PARK:
        return job.state == JobState.QUEUED
    if decision.kind is em.DecisionKind.MIGRATE and after_eviction(job, JobState.QUEUED) != JobState.QUEUED:
        return False  # its lifecycle rules would end or suspend it instead of queueing it again
    return job.state in LIVE


def carry_out(batch: CommitBatch, bundle: Bundle) -> None:
    """Mark jobs for eviction and add their claims, which are written with the rest of the batch.

    Raises: StaleJob, IllegalTransition.
    """
    for decision in bundle.decisions:
        job = batch.jobs[decision.job]
        match decision.kind:
            case em.DecisionKind.PARK if decision.allocations:
                _promise(batch, job, decision.allocations, decision.released)
            case em.DecisionKind.PARK:
                batch.claims.pop(job.pk, None)
                batch.unclaimed.add(job.pk)
            case em.DecisionKind.SHRINK:
                _shrink(batch, job, decision)
            case em.DecisionKind.MIGRATE:
                _evict(batch, job, decision)
                _promise(batch, job, _places(batch, decision), _in_the_way(decision, bundle))
            case _:
                _evict(batch, job, decision)


def _evict(batch: CommitBatch, job: Job, decision: em.Decision) -> None:
    rule, numbers = _rule(decision), _numbers(batch, job, decision)
    then = _THEN.get(decision.rule, JobState.QUEUED) if decision.rule else JobState.QUEUED
    mark_evicting(job=job, rule=rule, then=then, now=batch.now, numbers=numbers)
    if decision.rule is em.EvictRule.IDLE:
        IdleStretch.unscoped.filter(job=job).update(acted_at=batch.now)
    batch.evicted.append(job)
    batch.add_decision(job, _KINDS[decision.kind], rule, numbers, decision.beneficiary)
    _record(job, "job.evict", rule, numbers)


def _shrink(batch: CommitBatch, job: Job, decision: em.Decision) -> None:
    rule, numbers = _rule(decision), _numbers(batch, job, decision)
    advance_job(job, code="shrunk", now=batch.now, numbers={"rule": rule, **numbers})
    note_shrink(job, batch.now)
    if decision.rule is em.EvictRule.IDLE:
        IdleStretch.unscoped.filter(job=job).update(acted_at=batch.now)
    batch.given_up.append((job, decision.released))
    batch.add_decision(job, DecisionKind.SHRINK, rule, numbers, decision.beneficiary)
    _record(job, "job.shrink", rule, numbers)


def _record(job: Job, action: str, rule: str, numbers: dict[str, Any]) -> None:
    after = {"name": job.name, "rule": rule, **numbers}
    audit_log.record_action(
        SYSTEM, action, entity="job", entity_id=job.pk, tenant_id=job.workspace_id, after=after
    )


def _rule(decision: em.Decision) -> str:
    return decision.rule.value if decision.rule else ""


def _numbers(batch: CommitBatch, job: Job, decision: em.Decision) -> dict[str, Any]:
    """Return the numbers of an eviction: the job's size, the beneficiary's name if it is in the same
    workspace, and the excess of the job's queue if the job itself did not borrow.
    """
    held = batch.taken.snapshot.allocations
    released = [held[key] for key in decision.released if key in held]
    numbers: dict[str, Any] = {
        **batch.taken.with_names(decision.numbers),
        "tasks": len(decision.released),
        "cards": sum(len(allocation.slices) for allocation in released),
    }
    if decision.rule in RECLAIMING:
        numbers |= find_queue_excess(batch, job, released)
    other = batch.taken.jobs.get(decision.beneficiary) if decision.beneficiary else None
    if other is not None and other.workspace_id == job.workspace_id:
        numbers["beneficiary"] = other.name
    return numbers


def _promise(
    batch: CommitBatch, job: Job, places: tuple[em.Allocation, ...], leaving: tuple[str, ...]
) -> None:
    until = batch.now + timedelta(seconds=engine_config().preemption.claim_timeout_s)
    claim = em.Claim(
        job=str(job.pk), allocations=places, leaving=leaving, until=em.Instant(until.timestamp())
    )
    batch.unclaimed.discard(job.pk)
    batch.claims[job.pk] = Claim(job=job, content=job_history.claim_content(claim), expires_at=until)


def _places(batch: CommitBatch, decision: em.Decision) -> tuple[em.Allocation, ...]:
    """Return all placements of a job that is moved: it restarts as a whole, so the claim of a task that stays
    on its node is included.
    """
    moved = {allocation.id: allocation for allocation in decision.allocations}
    stays = [a for a in batch.taken.snapshot.allocations_of(decision.job) if a.id not in decision.released]
    return (*decision.allocations, *(a for a in stays if a.id not in moved and not a.leaving))


def _in_the_way(decision: em.Decision, bundle: Bundle) -> tuple[str, ...]:
    """Return the tasks of other jobs that the bundle evicts or moves, whose nodes this job may get."""
    return tuple(
        task
        for other in bundle.decisions
        if other.kind in em.RELEASING_KINDS and other.job != decision.job
        for task in other.released
    )


def remove_pods(batch: CommitBatch) -> set[uuid.UUID]:
    """Mark the pods of evicted jobs and tasks for removal; return the clusters that need a hint."""
    if not batch.evicted and not batch.given_up:
        return set()
    which = Q(attempt__job__in=[job.pk for job in batch.evicted])
    for job, tasks in batch.given_up:
        for task in tasks:
            _, role, index = task.rsplit("/", 2)
            which |= Q(attempt__job=job, task__role__name=role, task__index=int(index))
    return note_removal(which, batch.now)


def write_claims(batch: CommitBatch) -> None:
    """Write new claims, and delete those that ended."""
    ended = [pk for (pk,) in _CLAIMED.for_any(sorted(batch.unclaimed))]
    for first in range(0, len(ended), CHUNK):
        Claim.unscoped.filter(pk__in=ended[first : first + CHUNK]).delete()
    rows = [batch.claims[pk] for pk in sorted(batch.claims)]
    if not rows:
        return
    Claim.unscoped.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["job"],
        update_fields=["content", "expires_at"],
        batch_size=CHUNK,
    )
