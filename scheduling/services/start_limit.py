"""Evicts jobs whose pods do not start: they are queued again after a pause, and fail after the last try.

The time of a pod counts from its creation, or from the admission if it was never created, and starts again
when an unreachable cluster answers. Kueue's `waitForPodsReady` does the same: evict, requeue with back-off,
count, deactivate.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from clusters.models import ClusterHealth
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery
from scheduling.lifecycle.job_lifecycle import begin_eviction, note_removal, note_shrink
from scheduling.lifecycle.transitions import StaleJob, advance_job
from scheduling.models import Allocation, Attempt, Job, JobState, Task, TaskState
from scheduling.policy import combine_policies
from scheduling.policy.stating import START_LEAST_S
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.services.obstacles import START_LIMIT, given_up_note
from tenants.models import Tenant

log = structlog.get_logger(__name__)
RULE: Final = START_LIMIT
TRIES: Final = 3
"""The number of attempts of a job that may end by this rule; the last of them fails the job."""
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_STARTING: Final = (TaskState.BOUND, TaskState.STARTING)
_LIMIT: Final = 200


def _unstarted(before: datetime) -> QuerySet[Allocation]:
    began = Q(ensured_at__lt=before)
    # Pods that restart in place are excluded: their attempt has started, and the old pod may end slowly.
    never_made = Q(ensured_at__isnull=True, attempt__started_at__isnull=True, attempt__admitted_at__lt=before)
    return (
        Allocation.unscoped.filter(
            began | never_made,
            released_at__isnull=True,
            removal_asked_at__isnull=True,
            restarting=False,
            task__state__in=_STARTING,
            attempt__job__state__in=_LIVE,
            node__cluster__health=ClusterHealth.HEALTHY,
        )
        .annotate(
            since=Coalesce(F("ensured_at"), F("attempt__admitted_at")),
            answers_since=F("node__cluster__health_since"),
        )
        .select_related("attempt__job__queue", "task__role")
        .order_by("attempt__job_id", "since", "pk")
    )


_UNSTARTED: Final[PreparedQuery[Any]] = PreparedQuery(lambda before: _unstarted(before)[:_LIMIT])


def find_unstarted(jobs: Collection[Job], now: datetime) -> dict[uuid.UUID, datetime]:
    """Return since when the earliest pod of each job that isn't running yet has been starting."""
    found: dict[uuid.UUID, datetime] = {}
    for held in _unstarted(now).filter(attempt__job__in=jobs):
        since = _starting_since(held)
        found[held.attempt.job_id] = min(since, found.get(held.attempt.job_id, since))
    return found


def _starting_since(held: Any) -> datetime:
    since: datetime = max(filter(None, (held.since, held.answers_since)))
    return since


def end_slow_starts(*, now: datetime) -> int:
    """Evict jobs with a pod that takes longer to start than their workspace's policy allows; return how many.

    An elastic job that runs with enough other tasks loses only the task that does not start.
    """
    limits: dict[uuid.UUID, int | None] = {}
    seen: set[uuid.UUID] = set()
    for held in _UNSTARTED(now - timedelta(seconds=START_LEAST_S)):
        job = held.attempt.job
        if job.pk in seen:
            continue
        if job.workspace_id not in limits:
            workspace = Tenant.unscoped.get(pk=job.workspace_id)
            limits[job.workspace_id] = combine_policies(path_policies(workspace)).start_within_s
        limit_s = limits[job.workspace_id]
        if limit_s is None or now - _starting_since(held) < timedelta(seconds=limit_s):
            continue
        seen.add(job.pk)
        try:
            with transaction.atomic():
                _end(held, job, limit_s, now)
        except StaleJob:
            log.info("job moved on before its start was ended", job=str(job.pk))
    return len(seen)


def _end(held: Allocation, job: Job, limit_s: int, now: datetime) -> None:
    numbers = {"limit_s": limit_s, "pod": held.pod_name, "message": held.task.message[:300]}
    if job.state == JobState.RUNNING and can_spare(held.task):
        give_up_task(held, job, {"rule": RULE, **numbers}, now)
        return
    before = Attempt.unscoped.filter(job=job, end_reason=RULE).count()
    then = JobState.QUEUED if before + 1 < TRIES else JobState.FAILED
    begin_eviction(job=job, rule=RULE, then=then, now=now, numbers=numbers, backoff=then is JobState.QUEUED)


def give_up_task(held: Allocation, job: Job, numbers: dict[str, Any], now: datetime) -> None:
    """Remove a task that does not start from a running job, which continues. Raises: StaleJob."""
    advance_job(job, code="shrunk", now=now, numbers={"tasks": 1, **numbers})
    note_shrink(job, now, for_good=True)
    given_up_note(job=job, now=now)
    for cluster_id in note_removal(Q(pk=held.pk), now):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster_id)


def can_spare(task: Task) -> bool:
    """Return whether enough other tasks of the role run or have succeeded."""
    others = Task.unscoped.filter(role=task.role_id, state__in=(TaskState.RUNNING, TaskState.SUCCEEDED))
    return others.count() >= task.role.min_replicas
