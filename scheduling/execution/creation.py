"""Handles pods that a cluster refuses to create, and creations whose outcome is unknown.

A creation with unknown outcome is requested again under the same name at growing intervals, without delaying
other pods. If a pod cannot be created in a reachable cluster, its job is evicted and queued again after a
pause. Its cards are released when the cluster has confirmed that its pods do not exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Max

from clusters.backends.base import PUT_OFF, UNKNOWN, PodObservation, PodOutcome, PodPhase, TaskRef, TaskSpec
from clusters.models import Cluster, ClusterHealth, ForeignPod
from foundation.core import clock
from foundation.sql.bulk import Guard, locking_in_order, update_rows
from scheduling.execution.progress import pods_apply
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import Allocation, Job, JobState, Task, TaskState
from scheduling.monitoring import counters
from scheduling.services.start_limit import can_spare, give_up_task

log = structlog.get_logger(__name__)
ASKED_AT_MOST: Final = 10
"""The number of creations of one pod with unknown outcome, over about six minutes, that ends the attempt."""
NOT_CREATED: Final = "NotCreated"
"""The prefix of the message of a task whose pod is not known to exist."""
_FIRST_PAUSE_S: Final = 2
_LONGEST_PAUSE_S: Final = 60
# Refusals that an operator has to resolve have eviction rules of their own.
_OWN_RULES: Final = frozenset({"NAMESPACE_NOT_OWNED"})
NO_ROOM_LEFT: Final = "NO_LONGER_FREE"
# Refusals because a pod of that name was created for another allocation.
_OF_OTHERS: Final = ("NAME_TAKEN", "BOUND_ELSEWHERE")
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)


def note_unknown(cluster: Cluster, unknown: Sequence[tuple[Allocation, PodOutcome]]) -> int:
    """Record creations with unknown outcome, and evict the jobs of those that were requested too often.

    Return how many creations were postponed. Requests that were never sent, and all requests to an
    unreachable cluster, do not count as failures.
    """
    if cluster.health == ClusterHealth.UNREACHABLE:
        return 0
    asked = [(allocation, outcome) for allocation, outcome in unknown if outcome.code == UNKNOWN]
    waiting = [allocation for allocation, outcome in unknown if outcome.code == PUT_OFF]
    now = clock.now()
    rows = [(a.pk, a.ensure_failures + 1, now + _pause(a.ensure_failures)) for a, _ in asked]
    rows += [(a.pk, a.ensure_failures, now + _pause(0)) for a in waiting]
    if not rows:
        return 0
    messages = [(a.task_id, f"{NOT_CREATED}: {outcome.message}"[:2000]) for a, outcome in asked]
    with transaction.atomic():
        list(locking_in_order(Allocation.unscoped.filter(pk__in=[row[0] for row in rows])))
        absent = Guard(where={"ensured_at": None})
        update_rows(Allocation, ("ensure_failures", "ensure_after"), rows, guard=absent)
    # A separate transaction, because other transactions lock tasks before their allocations.
    with transaction.atomic():
        list(locking_in_order(Task.unscoped.filter(pk__in=[row[0] for row in messages])))
        update_rows(Task, ("message",), messages, guard=Guard(where={"state": TaskState.BOUND}))
    for allocation, outcome in asked:
        if allocation.ensure_failures + 1 >= ASKED_AT_MOST:
            send_back(allocation, outcome, now)
    return len(rows)


def send_back_crowded(wanted: Sequence[Allocation], specs: Sequence[TaskSpec]) -> set[uuid.UUID]:
    """Evict jobs with pods to create on nodes where foreign pods use allocated cards; return the keys of
    these allocations.

    Such a node has more cards allocated than it has, so a pod that is not created yet is given up.
    Allocations of jobs that are no longer live are not returned: they would be found each time, and no other
    pod of the cluster would ever be created.
    """
    sent: set[uuid.UUID] = set()
    for allocation, spec in zip(wanted, specs, strict=True):
        if allocation.node.cards_unplaced and spec.devices and not allocation.ensure_failures:
            message = (
                f"others hold {allocation.node.cards_unplaced} of the cards of node {allocation.node.name}"
            )
            if send_back(allocation, PodOutcome.of_refusal(NO_ROOM_LEFT, message), clock.now()):
                sent.add(allocation.pk)
    return sent


def _pause(failures: int) -> timedelta:
    return timedelta(seconds=min(_FIRST_PAUSE_S * 2**failures, _LONGEST_PAUSE_S))


def send_back(allocation: Allocation, outcome: PodOutcome, now: datetime) -> bool:
    """Evict the job of a pod that cannot be created, to be queued again after a pause.

    A running job with enough other tasks continues without this task, unless the pod's name belongs to
    another allocation. Return False for a job that is not live, which keeps its state.
    """
    job = Job.unscoped.select_related("queue").get(pk=allocation.attempt.job_id)
    if job.state not in _LIVE:
        return False
    counters.STARTS_REFUSED.add(cluster=allocation.node.cluster.name, code=outcome.code)
    try:
        with transaction.atomic():
            spare = job.state == JobState.RUNNING and can_spare(allocation.task)
            if spare and outcome.code not in _OF_OTHERS:
                numbers = {"rule": "NOT_READY", "code": outcome.code, "message": outcome.message[:300]}
                give_up_task(allocation, job, numbers, now)
                return True
            begin_eviction(
                job=job,
                rule=outcome.code if outcome.code in _OWN_RULES else "NOT_READY",
                then=JobState.QUEUED,
                now=now,
                numbers={"code": outcome.code, "message": outcome.message[:300]},
                backoff=True,
            )
            if outcome.code in _OF_OTHERS:
                _leave_alone(allocation, job, now)
    except StaleJob:
        log.info("job moved on before its refusal was noted", job=str(job.pk))
    return True


def _leave_alone(allocation: Allocation, job: Job, now: datetime) -> None:
    """Record that the pod is removed: it was not created, so there is nothing to wait for or to remove.

    The existing pod of that name belongs to an allocation that this database does not know. The job's attempt
    number is raised to the highest of its foreign pods, so that the next attempt has an unused number.
    """
    most = ForeignPod.unscoped.filter(job=str(job.pk)).aggregate(most=Max("attempt"))["most"]
    Job.unscoped.filter(pk=job.pk, attempt_number__lt=most or 0).update(attempt_number=most or 0)
    ref = TaskRef(allocation.namespace, allocation.pod_name)
    removed = PodObservation(ref, PodPhase.REMOVED, now, message="a pod of that name was there")
    pods_apply(cluster=allocation.node.cluster, observations=[removed], now=now)
