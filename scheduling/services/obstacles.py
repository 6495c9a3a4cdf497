"""Records why an admitted job does not start, and why a job that was marked for eviction still has pods.

A job has one such reason at a time. It is computed from rows repeatedly, and removed when its cause no longer
exists.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.db.models import Q, QuerySet

from clusters.models import ClusterHealth
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason
from foundation.sql.prepared import PreparedQuery
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Allocation, Job, JobEvent, JobState, TaskState

START_LIMIT: Final = "START_LIMIT"
"""The rule by which tasks that do not start in time are given up."""
CODES: Final = tuple(reason for reason in Reason if reason.row.gate is Gate.CLUSTER)
"""The reasons in the order of their preference: if several apply, the first is reported."""
TERMINATING: Final = "Terminating"
"""The prefix of the message of a task whose pod still exists because of finalizers."""
PROVISIONING_FAILED: Final = "ProvisioningFailed"
"""The event of a volume claim whose volume can't be created."""
_CODE_OF: Final = {
    "NotCreated": Reason.POD_NOT_CREATED,
    "ErrImagePull": Reason.IMAGE_PULL_FAILED,
    "ImagePullBackOff": Reason.IMAGE_PULL_FAILED,
    "ImageInspectError": Reason.IMAGE_PULL_FAILED,
    "RegistryUnavailable": Reason.IMAGE_PULL_FAILED,
    "SignatureValidationFailed": Reason.IMAGE_PULL_FAILED,
    "CreateContainerConfigError": Reason.CONTAINER_NOT_CREATED,
    "CreateContainerError": Reason.CONTAINER_NOT_CREATED,
    "RunContainerError": Reason.CONTAINER_NOT_CREATED,
    "PreStartHookError": Reason.CONTAINER_NOT_CREATED,
    "PostStartHookError": Reason.CONTAINER_NOT_CREATED,
    "FailedCreatePodSandBox": Reason.CONTAINER_NOT_CREATED,
    "FailedMount": Reason.VOLUME_NOT_MOUNTED,
    "FailedAttachVolume": Reason.VOLUME_NOT_MOUNTED,
    "FailedMapVolume": Reason.VOLUME_NOT_MOUNTED,
    PROVISIONING_FAILED: Reason.VOLUME_NOT_MOUNTED,
}
EVENTS: Final = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", PROVISIONING_FAILED}
)
"""Reasons that only events of the pod and of its volume claims report, not the status of a container."""
_STARTING: Final = (TaskState.BOUND, TaskState.STARTING)
# Most pods start, and end, within these times, so a shorter delay is not reported.
_SLOW: Final = timedelta(seconds=45)
_LEAVES_SLOWLY: Final = timedelta(seconds=45)
_LIMIT: Final = 1000
"""The number of jobs that one call examines. The next call continues with the jobs after them."""
_FIRST: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The obstacle of a job, in the form of its stored reason."""

    code: Reason | Literal[""]
    numbers: dict[str, Any] = field(default_factory=dict)


_HELD: Final = (JobState.ADMITTED, JobState.STARTING, JobState.EVICTING, JobState.STOPPING)
_RUNNING: Final = (JobState.RUNNING,)
_States = tuple[JobState, ...]


def _obstructed(states: _States, slow: datetime, leaving: datetime, after: uuid.UUID) -> QuerySet[Allocation]:
    starting = Q(task__state__in=_STARTING, removal_asked_at__isnull=True)
    slow_rows = starting & (~Q(task__message="") | Q(ensured_at__lt=slow))
    if states is not _RUNNING:
        terminating = Q(removal_asked_at__isnull=False, restarting=False)
        slowly = Q(task__message__startswith=TERMINATING) | Q(removal_asked_at__lt=leaving)
        slow_rows |= (terminating & slowly) | Q(node__cluster__health=ClusterHealth.UNREACHABLE)
    return Allocation.unscoped.filter(
        slow_rows, removed_at__isnull=True, attempt__job__state__in=states, attempt__job_id__gt=after
    )


def _held_up(
    states: _States, slow: datetime, leaving: datetime, after: uuid.UUID
) -> QuerySet[Allocation, tuple[Any, ...]]:
    """Return all obstructing pods of the next `_LIMIT` jobs that have any, so that each job's pods are
    complete."""
    obstructed = _obstructed(states, slow, leaving, after)
    jobs = obstructed.order_by("attempt__job_id").values("attempt__job_id").distinct()[:_LIMIT]
    return (
        obstructed.filter(attempt__job_id__in=jobs)
        .order_by("attempt__job_id", "pod_name")
        .values_list(
            *("attempt__job_id", "attempt__job__state", "pod_name", "task__message", "ensured_at"),
            *("removal_asked_at", "node__cluster__name", "node__cluster__health"),
            "node__cluster__health_since",
        )
    )


def _that_say(states: _States, after: uuid.UUID) -> QuerySet[Job, tuple[Any, ...]]:
    said = Job.unscoped.filter(state__in=states, pk__gt=after).exclude(reason="")
    return said.order_by("pk").values_list("pk")[:_LIMIT]


_HELD_UP: Final[dict[_States, PreparedQuery[tuple[Any, ...]]]] = {
    _HELD: PreparedQuery(lambda slow, leaving, after: _held_up(_HELD, slow, leaving, after)),
    _RUNNING: PreparedQuery(lambda slow, leaving, after: _held_up(_RUNNING, slow, leaving, after)),
}
_GIVEN_UP: Final[dict[_States, PreparedQuery[tuple[Any, ...]]]] = {
    _HELD: PreparedQuery(lambda after: _that_say(_HELD, after)),
    _RUNNING: PreparedQuery(lambda after: _that_say(_RUNNING, after)),
}
_reached: Final[dict[_States, uuid.UUID]] = {}
"""The last job that this process's previous call examined, if there were more."""


def obstacles_note(*, now: datetime, running: bool = False) -> int:
    """Write the obstacle of each job that starts or terminates to its reason; return how many jobs changed.

    `running`: examine running jobs instead, of which a task may be starting; call this less often.
    """
    states = _RUNNING if running else _HELD
    after = _reached.pop(states, _FIRST)
    found = _found(_HELD_UP[states](now - _SLOW, now - _LEAVES_SLOWLY, after))
    reported = [pk for (pk,) in _GIVEN_UP[states](after)]
    until = min((keys[-1] for keys in (list(found), reported) if len(keys) == _LIMIT), default=None)
    keys = {pk for pk in (*found, *reported) if until is None or pk <= until}
    if until is not None:
        _reached[states] = until
    if not keys:
        return 0
    changed = 0
    jobs = list(Job.unscoped.filter(pk__in=keys, state__in=states).order_by("pk"))
    smaller = _given_up([job for job in jobs if job.pk not in found]) if running else {}
    for job in jobs:
        obstacle = found.get(job.pk) or smaller.get(job.pk, Obstacle(""))
        if (job.reason, job.reason_numbers) != (obstacle.code, obstacle.numbers):
            changed += _note(job, obstacle, now)
    return changed


def given_up_note(*, job: Job, now: datetime) -> None:
    """Write to a running job's reason that a task was given up."""
    for obstacle in _given_up([job]).values():
        _note(job, obstacle, now)


def _given_up(jobs: Sequence[Job]) -> dict[uuid.UUID, Obstacle]:
    """Return the obstacles of jobs whose current attempt gave up tasks that did not start."""
    began = {job.pk: job.admitted_at for job in jobs if job.admitted_at is not None}
    if not began:
        return {}
    events: defaultdict[uuid.UUID, list[Mapping[str, Any]]] = defaultdict(list)
    shrunk = JobEvent.unscoped.filter(job__in=list(began), code="shrunk").order_by("id")
    for job, at, numbers in shrunk.values_list("job_id", "at", "numbers"):
        if numbers.get("rule") == START_LIMIT and at >= began[job]:
            events[job].append(numbers)
    return {job: _without_tasks(reported[-1], len(reported)) for job, reported in events.items()}


def _without_tasks(last: Mapping[str, Any], tasks: int) -> Obstacle:
    reported = {key: last[key] for key in ("pod", "limit_s", "message") if last.get(key)}
    return Obstacle(Reason.TASKS_GIVEN_UP, {"tasks": tasks, **reported})


def _note(job: Job, obstacle: Obstacle, now: datetime) -> int:
    """Write the obstacle if the job is unchanged, and add an event for a new code; return the jobs
    changed."""
    news = obstacle.code != job.reason
    current = Job.unscoped.filter(pk=job.pk, version=job.version, state=job.state)
    fields: dict[str, Any] = {"reason": obstacle.code, "reason_numbers": obstacle.numbers, "reason_help": []}
    if news:
        fields["reason_at"] = now
    if not current.update(**fields):
        return 0
    if news and obstacle.code:
        add_event(job, "held_up", now=now, numbers={"reason": obstacle.code, **obstacle.numbers})
    return 1


def _found(rows: Iterable[tuple[Any, ...]]) -> dict[uuid.UUID, Obstacle]:
    found: dict[uuid.UUID, Obstacle] = {}
    pods: dict[tuple[uuid.UUID, str], int] = {}
    for job, state, pod, message, ensured, asked, cluster, health, since in rows:
        obstacle = _obstacle(state, pod, message, ensured, asked, (cluster, health, since))
        if obstacle is None:
            continue
        key = (job, obstacle.code)
        pods[key] = pods.get(key, 0) + 1
        known = found.get(job)
        if known is None or CODES.index(obstacle.code) < CODES.index(known.code):
            found[job] = obstacle
    for job, obstacle in found.items():
        obstacle.numbers["pods"] = pods[job, obstacle.code]
    return found


def _obstacle(
    state: str,
    pod: str,
    message: str,
    ensured: datetime | None,
    asked: datetime | None,
    cluster: tuple[str, str, datetime | None],
) -> Obstacle | None:
    """Return the obstacle that one pod reports, if any."""
    name, health, since = cluster
    if health == ClusterHealth.UNREACHABLE and state != JobState.RUNNING:
        return Obstacle(Reason.CLUSTER_UNREACHABLE, {"cluster": name, **_at(since)})
    if asked is not None:
        reported = message.partition(": ")[2] if message.startswith(TERMINATING) else ""
        numbers = {"pod": pod, **({"finalizers": reported} if reported else {}), **_at(asked)}
        return Obstacle(Reason.POD_TERMINATING, numbers)
    reason, _, text = message.partition(": ")
    code = _CODE_OF.get(reason, Reason.POD_NOT_STARTED)
    said = (
        {"cause": reason, "message": text[:300]}
        if code != Reason.POD_NOT_CREATED
        else {"message": text[:300]}
    )
    # If a volume can't be created its claim exists, so that another recommendation applies.
    uncreated = {"pod_without_volume": pod} if reason == PROVISIONING_FAILED else {}
    return Obstacle(code, {"pod": pod, **(said if message else {}), **uncreated, **_at(ensured)})


def _at(moment: datetime | None) -> dict[str, str]:
    return {"at": f"{moment:%Y-%m-%dT%H:%M:%SZ}"} if moment else {}
