"""Adopts the pods of attempts that a restored database does not know.

A database that was restored from a backup may have a job as queued, or running as an earlier attempt, while
the cluster runs pods of a later attempt that this installation created. The job is then admitted as that
attempt, on the nodes and with the amounts of its pods, even beyond its quota, because the pods use them in
any case. It is not started again beside them. Pods that have ended are adopted too, so that a job that ended
since the backup ends here by its own lifecycle rules, as long as its pods exist.

A gang with too few pods cannot continue: its members do not wait for missing members a second time. Its
remaining pods are removed, and the job is queued for its next attempt. Attempt numbers only increase, so
neither a number nor a pod's name is used twice.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from clusters.backends.base import ClusterBackend, PodObservation, PodPhase, TaskRef
from clusters.models import Cell, Cluster, ForeignOrigin, ForeignPod
from clusters.services.grants import NoLongerFree
from clusters.services.ownership import is_read_current
from foundation.core import faults
from foundation.sql.prepared import PreparedQuery
from scheduling.execution.adopted_admission import NotAdoptable, admit_adopted
from scheduling.execution.progress import pods_apply
from scheduling.execution.task_specs import LABEL_ATTEMPT, LABEL_JOB
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob, advance_job, change_state
from scheduling.models import TERMINAL_STATES, Allocation, Job, JobState, Task

log = structlog.get_logger(__name__)
_PORTION: Final = 500
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_HOLD_BACK: Final = timedelta(minutes=2)
"""The pause of a job whose pods could not be adopted; it is renewed while they exist."""
_RENEW: Final = timedelta(seconds=30)
_DIGITS: Final = 10
_UNKNOWN: Final = PreparedQuery(
    lambda cluster: (
        ForeignPod.unscoped.filter(cluster=cluster, origin=ForeignOrigin.UNKNOWN)
        .exclude(job="")
        .values_list("uid")
    )
)


@dataclass(slots=True)
class UnknownAttempt:
    """The pods of a job's latest attempt, which the database does not know."""

    job: uuid.UUID
    number: int
    pods: list[PodObservation] = field(default_factory=list)


def has_unknown(cluster: Cluster, pods: Sequence[PodObservation]) -> bool:
    """Return whether some of `pods` hold resources and belong to unknown attempts; usually one query."""
    uids = _unknown_uids(cluster) if pods else set()
    return any(pod.ref.uid in uids for pod in pods) and bool(_find(cluster, pods, uids, ended=False))


def find_unknown(cluster: Cluster, pods: Sequence[PodObservation]) -> list[UnknownAttempt]:
    """Return the unknown attempts among `pods`, which are all pods of the platform in a cluster."""
    return _find(cluster, pods, _unknown_uids(cluster), ended=True)


def _unknown_uids(cluster: Cluster) -> set[str]:
    return {uid for (uid,) in _UNKNOWN(cluster.pk)}


def _find(
    cluster: Cluster, pods: Sequence[PodObservation], uids: set[str], *, ended: bool
) -> list[UnknownAttempt]:
    """Return the unknown attempts of the pods in `uids`, with `ended` also of the pods that have ended."""
    found: dict[tuple[uuid.UUID, int], UnknownAttempt] = {}
    for pod in pods:
        if pod.ref.uid in uids or (ended and pod.phase in _ENDED):
            said = _attempt_of(pod)
            if said is not None:
                found.setdefault(said, UnknownAttempt(*said)).pods.append(pod)
    if not found:
        return []
    latest: dict[uuid.UUID, UnknownAttempt] = {}
    for _, attempt in sorted(found.items()):
        latest[attempt.job] = attempt
    known = _jobs(cluster, latest)
    unmade = _with_unmade(known)
    return [
        attempt
        for attempt in latest.values()
        if attempt.job in known
        and (
            known[attempt.job].attempt_number < attempt.number
            or (attempt.job in unmade and _is_unmade(attempt))
        )
        and {pod.ref.namespace for pod in attempt.pods} == {known[attempt.job].workspace.slug}
    ]


def _attempt_of(pod: PodObservation) -> tuple[uuid.UUID, int] | None:
    """Return the job and the attempt number in a pod's labels; None if they are missing or invalid."""
    number = pod.labels.get(LABEL_ATTEMPT, "")
    if not (number.isascii() and number.isdecimal() and len(number) < _DIGITS):
        return None
    try:
        return uuid.UUID(pod.labels.get(LABEL_JOB, "")), int(number)
    except ValueError:
        return None


def _with_unmade(jobs: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the jobs of whose current attempt a pod was not created; they are few."""
    found: set[uuid.UUID] = set()
    ordered = sorted(jobs)
    for start in range(0, len(ordered), _PORTION):
        unmade = Allocation.unscoped.filter(
            attempt__job__in=ordered[start : start + _PORTION],
            attempt__number=F("attempt__job__attempt_number"),
            pod_uid="",
        )
        found.update(unmade.values_list("attempt__job_id", flat=True))
    return found


def _is_unmade(attempt: UnknownAttempt) -> bool:
    """Return whether this database has admitted the job as the attempt of that number, but created none of
    its pods.
    """
    own = Allocation.unscoped.filter(attempt__job=attempt.job, attempt__number=attempt.number)
    uids = set(own.values_list("pod_uid", flat=True))
    return uids == {""} and attempt.number == _latest(attempt.job)


def _latest(job: uuid.UUID) -> int:
    return Job.unscoped.values_list("attempt_number", flat=True).get(pk=job)


def _jobs(cluster: Cluster, keys: Iterable[uuid.UUID]) -> dict[uuid.UUID, Job]:
    """Return the unfinished jobs among `keys` that belong to the cluster's cell."""
    found: dict[uuid.UUID, Job] = {}
    ordered = sorted(keys)
    for start in range(0, len(ordered), _PORTION):
        rows = Job.unscoped.filter(pk__in=ordered[start : start + _PORTION], queue__cell=cluster.cell_id)
        rows = rows.exclude(state__in=TERMINAL_STATES).select_related("workspace")
        found.update((job.pk, job) for job in rows)
    return found


def hold_back(cluster: Cluster, attempts: Sequence[UnknownAttempt], *, now: datetime) -> None:
    """Keep cycles from starting these jobs again before their pods are adopted.

    Call it before the pods that a list lacks are recorded as removed: that may queue a job again. Pods of
    these attempts that were not created yet are given up.
    """
    if attempts and not is_read_current(cluster):
        return
    for attempt in attempts:
        Job.unscoped.filter(pk=attempt.job, state__in=(*_LIVE, JobState.EVICTING)).update(
            backoff_until=now + _HOLD_BACK
        )
        _give_up_unmade(attempt, now)


def _give_up_unmade(attempt: UnknownAttempt, now: datetime) -> None:
    """End an attempt of which no pod was created: no observation would end it."""
    job = Job.unscoped.select_related("queue").get(pk=attempt.job)
    if job.state not in _LIVE:
        return
    live = Allocation.unscoped.filter(attempt__job=job, removed_at__isnull=True)
    if live.exclude(pod_uid="").exists():
        return
    try:
        with transaction.atomic():
            numbers = {"attempt": attempt.number}
            begin_eviction(job=job, rule="POD_DELETED", then=JobState.QUEUED, now=now, numbers=numbers)
            rows = list(live.select_related("node__cluster").order_by("pk"))
            by_cluster: defaultdict[Cluster, list[PodObservation]] = defaultdict(list)
            for row in rows:
                ref = TaskRef(row.namespace, row.pod_name)
                message = "it was not made: another attempt runs"
                by_cluster[row.node.cluster].append(
                    PodObservation(ref, PodPhase.REMOVED, now, message=message)
                )
            for cluster, removed in by_cluster.items():
                pods_apply(cluster=cluster, observations=removed, now=now)
    except StaleJob:
        log.info("job moved on before its unmade attempt was ended", job=str(job.pk))


def adopt_all(
    cluster: Cluster, backend: ClusterBackend, attempts: Sequence[UnknownAttempt], *, now: datetime
) -> int:
    """Adopt the pods of each attempt; return how many attempts were adopted."""
    adopted = 0
    for attempt in attempts:
        try:
            whole = _adopt(cluster, backend, attempt, now)
        except (NotAdoptable, NoLongerFree, IntegrityError, StaleJob) as error:
            _note_not_adopted(cluster, attempt, str(error), now)
            continue
        if whole is None:
            continue
        adopted += 1
        faults.fault_point("observe.after_adoption")
        pods_apply(cluster=cluster, observations=attempt.pods, now=now)
    return adopted


@transaction.atomic
def _adopt(cluster: Cluster, backend: ClusterBackend, attempt: UnknownAttempt, now: datetime) -> bool | None:
    """Admit a job as the attempt of its pods; return whether enough of them exist to continue.

    Return None if nothing was done: the list of pods is outdated, or the job is not queued or has a later
    attempt. Raises: NotAdoptable; NoLongerFree; IntegrityError; StaleJob.
    """
    cell = Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    rows = Job.unscoped.select_for_update(of=("self",), no_key=True).select_related("queue", "workspace")
    job = rows.get(pk=attempt.job)
    if not is_read_current(cluster):  # the pods may have ended since they were read
        return None
    if job.state == JobState.SUSPENDED:  # it was resumed after the backup, because its pods run
        change_state(job, JobState.QUEUED, code="resumed", now=now)
    if job.state != JobState.QUEUED:
        return None
    if _is_unmade(attempt):  # the attempt of the pods has the same number
        job.attempts.filter(number=attempt.number).delete()
    elif job.attempt_number >= attempt.number:
        return None
    admit_adopted(cell=cell, cluster=cluster, job=job, number=attempt.number, pods=attempt.pods, now=now)
    if backend.capabilities.gangs:
        job.attempts.filter(number=attempt.number).update(gathered_at=now)
    Job.unscoped.filter(pk=job.pk).update(backoff_until=None)
    job.refresh_from_db()
    missing = _missing(job)
    live = sum(pod.phase not in _ENDED for pod in attempt.pods)
    log.info(
        "pods are adopted",
        cluster=cluster.name, job=str(job.pk), attempt=attempt.number, running=live, missing=missing,
    )  # fmt: skip
    if missing:
        numbers = {"tasks": len(attempt.pods), "missing": missing}
        begin_eviction(job=job, rule="STALE_GANG", then=JobState.QUEUED, now=now, numbers=numbers)
    return not missing


def _missing(job: Job) -> int:
    """Count the missing tasks that the job can't run without."""
    bound: Counter[uuid.UUID] = Counter(
        Task.unscoped.filter(job=job, allocations__attempt__number=job.attempt_number).values_list(
            "role_id", flat=True
        )
    )
    of_roles = sum(max(role.min_replicas - bound[role.pk], 0) for role in job.roles.all())
    return max(of_roles, job.min_available - bound.total(), 0)


def _note_not_adopted(cluster: Cluster, attempt: UnknownAttempt, why: str, now: datetime) -> None:
    """Pause a job whose pods cannot be adopted, so that it doesn't run twice, and add an event."""
    names = sorted(pod.ref.name for pod in attempt.pods if pod.phase not in _ENDED)
    log.warning(
        "pods of a job are not adopted",
        cluster=cluster.name, job=str(attempt.job), attempt=attempt.number, pods=names, why=why,
    )  # fmt: skip
    if not names:
        return  # pods that have ended are no reason to pause the job
    due = Q(backoff_until__isnull=True) | Q(backoff_until__lt=now + _RENEW)
    job = Job.unscoped.filter(due, pk=attempt.job, state=JobState.QUEUED).first()
    if job is None:
        return
    numbers: Mapping[str, str | int] = {
        "pod": names[0], "pods": len(names), "attempt": attempt.number, "message": why[:300],
    }  # fmt: skip
    try:
        with transaction.atomic():
            advance_job(job, code="not_adopted", now=now, numbers=numbers, backoff_until=now + _HOLD_BACK)
    except StaleJob:
        log.info("job moved on before it was held back", job=str(job.pk))
