"""Pods that a cluster refuses to make, or of which nobody knows whether it has.

An unknown creation is asked for again by the same name, less and less often, and holds up no other. A job of
which one pod cannot be made while the cluster is well gives everything back and is tried again after a pause.
Its cards come back when the cluster has confirmed that its pods are not there.
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
"""So many unknown creations of one pod, over about six minutes, end the attempt."""
NOT_CREATED: Final = "NotCreated"
"""How the message of a task begins whose pod is not known to be there."""
_FIRST_PAUSE_S: Final = 2
_LONGEST_PAUSE_S: Final = 60
# What an operator has to put right is told by a rule of its own.
_OWN_RULES: Final = frozenset({"NAMESPACE_NOT_OWNED"})
NO_ROOM_LEFT: Final = "NO_LONGER_FREE"
# The pod of that name was made for another hold, by the cluster's own answer.
_OF_OTHERS: Final = ("NAME_TAKEN", "BOUND_ELSEWHERE")
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)


def note_unknown(cluster: Cluster, unknown: Sequence[tuple[Allocation, PodOutcome]]) -> int:
    """Note creations whose outcome is not known, and give up those that were asked for too often.

    Returns how many were put off. What was never sent, and what a cluster does not answer that answers
    nothing else either, is not held against the job: one that only waited for others waits a moment more.
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
    # By itself: others lock tasks before their allocations.
    with transaction.atomic():
        list(locking_in_order(Task.unscoped.filter(pk__in=[row[0] for row in messages])))
        update_rows(Task, ("message",), messages, guard=Guard(where={"state": TaskState.BOUND}))
    for allocation, outcome in asked:
        if allocation.ensure_failures + 1 >= ASKED_AT_MOST:
            send_back(allocation, outcome, now)
    return len(rows)


def send_back_crowded(wanted: Sequence[Allocation], specs: Sequence[TaskSpec]) -> set[uuid.UUID]:
    """Send back what was placed on cards that others turned out to hold; returns the keys of these holds.

    Such a node has more cards given out than it has, and the pod that is not made yet is the one to yield.
    A hold of a job that is not live any more is not among them: it would be found again each time, and no
    other pod of the cluster would ever be made.
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
    """Evict the job of a pod that cannot be made, with its whole gang, to be tried again after a pause.

    A job that runs with enough other tasks goes on without the one of this pod.
    Returns False for a job that is not live, which keeps its state.
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
    """Nothing was made under that name, so there is nothing to wait for or to remove.

    What is there belongs to a hold that this database does not know. The next attempt has a number above all
    that pods of the job show.
    """
    most = ForeignPod.unscoped.filter(job=str(job.pk)).aggregate(most=Max("attempt"))["most"]
    Job.unscoped.filter(pk=job.pk, attempt_number__lt=most or 0).update(attempt_number=most or 0)
    ref = TaskRef(allocation.namespace, allocation.pod_name)
    removed = PodObservation(ref, PodPhase.REMOVED, now, message="a pod of that name was there")
    pods_apply(cluster=allocation.node.cluster, observations=[removed], now=now)
