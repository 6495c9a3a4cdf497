"""Pods of an attempt that this database does not know: after a restore a job is what runs of it.

A database that was restored from a backup may say that a job waits, or runs as an earlier attempt, while
the cluster runs pods of a later attempt that this very installation made. Such pods are the job: it is
admitted as that attempt, on the nodes and with the amounts that the pods have, above its quota too, because
they hold them in any case. It is not queued again beside them. Pods that have ended count as well, so that a
job which ended since the backup ends here by its own rules, as long as its pods are there to say how.

A gang of which too few pods are there cannot go on: those that are missing met the others once and are not
waited for again. What is left of it is removed, and the job is queued for its next attempt. Attempts only
move forward, so neither a number nor the name of a pod is used twice.
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
"""How long a job is not started whose pods could not be adopted; renewed while they are there."""
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
    """The pods of the latest attempt of one job, of which the database does not know."""

    job: uuid.UUID
    number: int
    pods: list[PodObservation] = field(default_factory=list)


def has_unknown(cluster: Cluster, pods: Sequence[PodObservation]) -> bool:
    """Return whether some of `pods` hold something and are of unknown attempts; usually not, for one
    query.
    """
    uids = _unknown_uids(cluster) if pods else set()
    return any(pod.ref.uid in uids for pod in pods) and bool(_find(cluster, pods, uids, ended=False))


def find_unknown(cluster: Cluster, pods: Sequence[PodObservation]) -> list[UnknownAttempt]:
    """The unknown attempts among `pods`, which are all pods of the platform in a cluster."""
    return _find(cluster, pods, _unknown_uids(cluster), ended=True)


def _unknown_uids(cluster: Cluster) -> set[str]:
    return {uid for (uid,) in _UNKNOWN(cluster.pk)}


def _find(
    cluster: Cluster, pods: Sequence[PodObservation], uids: set[str], *, ended: bool
) -> list[UnknownAttempt]:
    """Return the pods that `uids` names, and with `ended` the ones that have ended."""
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
    """The job and the attempt that a pod says it is of; None for a pod that says neither."""
    number = pod.labels.get(LABEL_ATTEMPT, "")
    if not (number.isascii() and number.isdecimal() and len(number) < _DIGITS):
        return None
    try:
        return uuid.UUID(pod.labels.get(LABEL_JOB, "")), int(number)
    except ValueError:
        return None


def _with_unmade(jobs: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the jobs of whose attempt a pod was not made: few."""
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
    """Return whether this database has admitted the job as the attempt of that number, and made none of
    its pods.
    """
    own = Allocation.unscoped.filter(attempt__job=attempt.job, attempt__number=attempt.number)
    uids = set(own.values_list("pod_uid", flat=True))
    return uids == {""} and attempt.number == _latest(attempt.job)


def _latest(job: uuid.UUID) -> int:
    return Job.unscoped.values_list("attempt_number", flat=True).get(pk=job)


def _jobs(cluster: Cluster, keys: Iterable[uuid.UUID]) -> dict[uuid.UUID, Job]:
    """Return the jobs that have not ended and are of the cell of the cluster."""
    found: dict[uuid.UUID, Job] = {}
    ordered = sorted(keys)
    for start in range(0, len(ordered), _PORTION):
        rows = Job.unscoped.filter(pk__in=ordered[start : start + _PORTION], queue__cell=cluster.cell_id)
        rows = rows.exclude(state__in=TERMINAL_STATES).select_related("workspace")
        found.update((job.pk, job) for job in rows)
    return found


def hold_back(cluster: Cluster, attempts: Sequence[UnknownAttempt], *, now: datetime) -> None:
    """Have no cycle start these jobs again before their pods are adopted.

    To be called before what the list lacks is noted: that may put a job back into the queue. Pods that were
    not made yet will not be.
    """
    if attempts and not is_read_current(cluster):
        return
    for attempt in attempts:
        Job.unscoped.filter(pk=attempt.job, state__in=(*_LIVE, JobState.EVICTING)).update(
            backoff_until=now + _HOLD_BACK
        )
        _give_up_unmade(attempt, now)


def _give_up_unmade(attempt: UnknownAttempt, now: datetime) -> None:
    """End an attempt of which no pod was made: nothing else would."""
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
    """Make each job what its pods are; returns how many were adopted."""
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
    """Admit a job as the attempt that its pods are of; returns whether enough of them are there to go on.

    None when it does not wait, so that nothing was done. Raises: NotAdoptable; NoLongerFree;
    IntegrityError; StaleJob.
    """
    cell = Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    rows = Job.unscoped.select_for_update(of=("self",), no_key=True).select_related("queue", "workspace")
    job = rows.get(pk=attempt.job)
    if not is_read_current(cluster):  # the pods may have gone since they were read
        return None
    if job.state == JobState.SUSPENDED:  # somebody resumed it since
        change_state(job, JobState.QUEUED, code="resumed", now=now)
    if job.state != JobState.QUEUED:
        return None
    if _is_unmade(attempt):  # its number is that of the one which runs
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
    """Count the missing tasks of those that the job can't do without."""
    bound: Counter[uuid.UUID] = Counter(
        Task.unscoped.filter(job=job, allocations__attempt__number=job.attempt_number).values_list(
            "role_id", flat=True
        )
    )
    of_roles = sum(max(role.min_replicas - bound[role.pk], 0) for role in job.roles.all())
    return max(of_roles, job.min_available - bound.total(), 0)


def _note_not_adopted(cluster: Cluster, attempt: UnknownAttempt, why: str, now: datetime) -> None:
    """Keep a job from starting beside pods of it that cannot be adopted, and say so in its events."""
    names = sorted(pod.ref.name for pod in attempt.pods if pod.phase not in _ENDED)
    log.warning(
        "pods of a job are not adopted",
        cluster=cluster.name, job=str(attempt.job), attempt=attempt.number, pods=names, why=why,
    )  # fmt: skip
    if not names:
        return  # what has ended is in nobody's way
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
