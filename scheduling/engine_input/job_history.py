"""The history of a cell's jobs that a cycle needs: claims, earlier attempts, and past usage."""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import Count, F, Max, QuerySet

from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.jobs import Idleness, Past, RoleRow
from scheduling.models import (
    HOLDING_STATES,
    Attempt,
    Claim,
    IdleAction,
    IdleStretch,
    Job,
    JobRole,
    JobState,
    Task,
    TaskState,
    UserUsage,
)
from scheduling.models.idle_stretch import STALE_AFTER

log = structlog.get_logger(__name__)

PREEMPTED: Final = (
    em.EvictRule.IN_QUEUE_PRIORITY,
    em.EvictRule.RECLAIM_NOMINAL,
    em.EvictRule.RECLAIM_WHILE_BORROWING,
    em.EvictRule.FAIR_SHARE,
    em.EvictRule.CONSOLIDATION,
    em.EvictRule.SLICE_RETURNED,
)
"""The rules by which a job is evicted for another job; only these evictions count towards its cap."""

DRAINED_FOR: Final = timedelta(minutes=10)
"""The time for which a drained job does not borrow, so that others get the released capacity first."""
_DRAINED: Final = em.EvictRule.QUEUE_DRAINED.value


def _evictions(jobs: list[uuid.UUID]) -> QuerySet[Attempt, tuple[uuid.UUID, int, datetime | None]]:
    lost = Attempt.unscoped.filter(
        job__pk__any_of=jobs,
        job__state__in=(JobState.QUEUED, *HOLDING_STATES),
        end_reason__in=[rule.value for rule in PREEMPTED],
    )
    return lost.order_by().values_list("job_id").annotate(Count("id"), Max("ended_at"))


def _emptied(jobs: list[uuid.UUID], since: datetime) -> QuerySet[Attempt, tuple[uuid.UUID, datetime | None]]:
    return Attempt.unscoped.filter(
        job__pk__any_of=jobs, job__state=JobState.QUEUED, end_reason=_DRAINED, ended_at__gt=since
    ).values_list("job_id", "ended_at")


def _finished(jobs: list[uuid.UUID]) -> QuerySet[Task, tuple[uuid.UUID, uuid.UUID, int]]:
    finished = Task.unscoped.filter(
        job__pk__any_of=jobs, job__state__in=HOLDING_STATES, state=TaskState.SUCCEEDED
    )
    return finished.order_by().values_list("job_id", "role_id").annotate(Count("id"))


_EVICTIONS: Final = PreparedQuery(_evictions)
_EMPTIED: Final = PreparedQuery(_emptied)
_FINISHED: Final = PreparedQuery(_finished)
# Read for all cells: there are few such attempts, and a filter by a cell's many jobs would cost more.
_SCALED: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda: (
        Attempt.unscoped.filter(ended_at__isnull=True, scaled_at__isnull=False)
        .order_by()
        .values_list("job_id", "scaled_at", "shrinks")
    )
)
_IDLE: Final = PreparedQuery(
    lambda seen_after: IdleStretch.unscoped.filter(
        seen_at__gte=seen_after, job__state=JobState.RUNNING, attempt_number=F("job__attempt_number")
    ).order_by()
)
_PROMISED: Final = PreparedQuery(lambda: Claim.unscoped.order_by().values_list("job_id"))
_CLAIMS: Final = PreparedQuery(
    lambda jobs, cell: Claim.unscoped.filter(
        job__pk__any_of=jobs,
        job__queue__cell_id=cell,
        job__state__in=(JobState.QUEUED, JobState.EVICTING),
    ).order_by("job_id")
)
_USAGE: Final = PreparedQuery(
    lambda cell: UserUsage.unscoped.filter(queue__cell_id=cell, queue__user_shares=True).order_by(
        "queue_id", "user_id"
    )
)


def claim_content(claim: em.Claim) -> dict[str, Any]:
    """Return a claim in its stored form."""
    content: dict[str, Any] = engine.encode(claim)
    return content


def claims_of(cell_id: uuid.UUID) -> dict[str, em.Claim]:
    """Return the claims of a cell by job id."""
    found: dict[str, em.Claim] = {}
    for row in _CLAIMS.for_any([job_id for (job_id,) in _PROMISED()], cell_id):
        try:
            claim = engine.decode(em.Claim, row.content)
        except engine.CodecError as error:
            # Another release wrote it: the job is evaluated in its order, without a claim.
            log.warning("claim cannot be read", job=str(row.job_id), why=str(error))
            continue
        found[claim.job] = replace(claim, until=em.Instant(row.expires_at.timestamp()))
    return found


def places_of_moved(snapshot: engine.Snapshot) -> Iterator[em.Allocation]:
    """Yield the claimed places of jobs that are being moved, until they are removed and queued again.

    The engine applies claims of queued jobs only. A job that is being moved still terminates, and its new
    nodes must stay reserved. A place is charged only once the task has released its quota.
    """
    for job_id, claim in snapshot.claims.items():
        job = snapshot.jobs.get(job_id)
        if job is None or job.state is not em.JobState.LEAVING:
            continue
        for place in claim.allocations:
            held = place.id in snapshot.allocations
            yield replace(place, job=f"{job_id} (moving)", charges=() if held else place.charges)


def has_left(job: Job) -> bool:
    """Return whether any attempt of an unfinished job has ended."""
    return job.attempt_number > (job.state != JobState.QUEUED)


def has_parts(job: Job, roles: Iterable[JobRole | RoleRow]) -> bool:
    """Return whether a job has allocations and several tasks, of which some may have finished already."""
    return job.holds and sum(role.replicas for role in roles) > 1


def pasts_of(
    promised: frozenset[str], *, left: Collection[uuid.UUID], in_parts: Collection[uuid.UUID]
) -> Mapping[uuid.UUID, Past]:
    """Return evictions, drains, finished tasks, idle times and claims of the jobs that have any.

    `left` are the jobs for which `has_left` is true, `in_parts` includes those for which `has_parts` is true.
    Five queries at most.
    """
    again = sorted(left)
    evictions = {pk: (count, last) for pk, count, last in _EVICTIONS.for_any(again)}
    emptied = _EMPTIED.for_any(again, clock.now() - DRAINED_FOR)
    ends = sorted((at, job_id) for job_id, at in emptied if at is not None)
    drained = {job_id: ended_at + DRAINED_FOR for ended_at, job_id in ends}
    ended: defaultdict[uuid.UUID, dict[uuid.UUID, int]] = defaultdict(dict)
    for job_id, role_id, count in _FINISHED.for_any(sorted(in_parts)):
        ended[job_id][role_id] = count
    now = clock.now()
    idle = {row.job_id: _idleness(row, now) for row in _IDLE(now - STALE_AFTER)}
    scaled = {pk: (at, shrinks) for pk, at, shrinks in _SCALED()}
    jobs = {*evictions, *drained, *ended, *idle, *scaled, *(uuid.UUID(job_id) for job_id in promised)}
    return {
        pk: Past(
            evictions=evictions[pk][0] if pk in evictions else 0,
            evicted_at=evictions[pk][1] if pk in evictions else None,
            ended=ended.get(pk, {}),
            promised=str(pk) in promised,
            drained_until=drained.get(pk),
            idle=idle.get(pk),
            scaled_at=scaled[pk][0] if pk in scaled else None,
            shrinks=scaled[pk][1] if pk in scaled else 0,
        )
        for pk in jobs
    }


def _idleness(row: IdleStretch, now: datetime) -> Idleness:
    """Return an idle time as the engine takes it. The engine acts only if the job's owner was warned."""
    preemptible = row.action == IdleAction.PREEMPTIBLE
    after = row.act_at - row.since if row.act_at is not None and row.is_due(now) and not preemptible else None
    return Idleness(
        since=row.since,
        act_after_s=None if after is None else math.ceil(after.total_seconds()),
        shrinks=row.action == IdleAction.SHRINK,
        preemptible=preemptible and row.acted_at is not None,
    )


def usage_of(cell_id: uuid.UUID) -> list[em.UserUsage]:
    """Return the recent usage of users in the queues of a cell."""
    return [
        em.UserUsage(
            queue=str(row.queue_id),
            user=str(row.user_id),
            at=em.Instant(row.at.timestamp()),
            consumed=tuple(em.ResourceAmount(name, amount) for name, amount in sorted(row.consumed.items())),
        )
        for row in _USAGE(cell_id)
    ]
