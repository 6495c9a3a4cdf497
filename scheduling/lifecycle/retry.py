"""The next step after a failed or evicted attempt: a new pod, the queue, or the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase
from scheduling.models import OWN_END_REASONS, Attempt, Job, JobState

# Pod reasons of Kubernetes for a failure of the node or its kubelet, not of the program.
_NODE: Final = (
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "ContainerStatusUnknown",
    "DeviceUnhealthy",
)
_NOT_THE_PROGRAM: Final = (
    *("OutOf", "UnexpectedAdmissionError", "Evicted", "NodeAffinity", "NodePorts", "TopologyAffinityError"),
    *("Preempting", *_NODE),
)

# The kubelet retries these without end, and they can't succeed unless the pod or the image changes.
_NEVER_STARTS: Final = {"InvalidImageName": "IMAGE_NAME_INVALID", "ErrImageNeverPull": "IMAGE_NOT_ON_NODE"}
_BY_ROOT: Final = ("CreateContainerConfigError", "runAsNonRoot")

IN_PLACE: Final = ("restart_task", "restart_role")
"""Actions that release nothing: the pods are created again with the same names, on the same cards."""


@dataclass(frozen=True, slots=True)
class RetryVerdict:
    """The result of a failure: the eviction `rule`, the state `then` after it, and whether to pause
    (`backoff`)."""

    rule: str
    then: JobState
    backoff: bool


def never_starts(seen: PodObservation) -> str:
    """Return the code of an error because of which a pod can never start; empty if it may still start."""
    if seen.phase not in (PodPhase.PENDING, PodPhase.STARTING):
        return ""
    reason, by_root = _BY_ROOT
    if seen.reason == reason and by_root in seen.message:
        return "IMAGE_RUNS_AS_ROOT"
    return _NEVER_STARTS.get(seen.reason, "")


def rules_for(job: Job, event: str, **facts: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the job's lifecycle rules for an event, in their order.

    `facts` are the exit code and the role of the task; a rule that names neither applies to all.
    """
    rules: list[dict[str, Any]] = job.lifecycle
    for rule in rules:
        codes, role = rule.get("exit_codes"), rule.get("role")
        about = rule["on"] == event
        if about and (not codes or facts.get("exit_code") in codes) and role in (None, facts.get("role")):
            yield rule


def rule_for(job: Job, event: str, **facts: Any) -> Mapping[str, Any] | None:
    """Return the first rule of `rules_for`, or None."""
    return next(rules_for(job, event, **facts), None)


def after_failed_task(job: Job, role: str, restarts: int, cause: PodObservation) -> str:
    """Return the action for a failed task: that of the first matching rule below its limit; empty if there is
    none.

    `restarts` counts the restarts of the task in place. No rule applies to a pod that the cluster lost or
    could not run.
    """
    if cause.phase is not PodPhase.FAILED or _is_not_the_program(cause):
        return ""
    for rule in rules_for(job, "task_failed", exit_code=cause.exit_code, role=role):
        action = str(rule["do"])
        if action in IN_PLACE:
            done = restarts
        elif action == "restart_job":
            done = Attempt.unscoped.filter(job=job, end_reason="TASK_FAILED").count()
        else:
            return action
        if done < int(rule.get("max", 1)):
            return action
    return ""


def _is_not_the_program(cause: PodObservation) -> bool:
    """Return whether the cluster ended the pod or never ran it: a kubelet that rejects a pod reports a
    reason and no exit code.
    """
    refused = bool(cause.reason) and cause.exit_code is None
    return refused or cause.reason.startswith(_NOT_THE_PROGRAM)


def after_failure(cause: PodObservation, action: str) -> RetryVerdict:
    """Decide what follows a failed task that is not restarted in place.

    A job whose pod the cluster lost or could not run is queued again, as often as needed, and with back-off
    unless the node was lost. A job whose program failed is queued again only if its lifecycle rules say so;
    `action` is that of its rules.
    """
    if cause.phase is PodPhase.REMOVED:
        return RetryVerdict("POD_DELETED", JobState.QUEUED, backoff=False)
    if _is_not_the_program(cause):
        lost = cause.reason.startswith(_NODE)
        return RetryVerdict("NODE_LOST" if lost else "NOT_READY", JobState.QUEUED, backoff=not lost)
    then = {"restart_job": JobState.QUEUED, "abort_job": JobState.SUSPENDED}.get(action, JobState.FAILED)
    return RetryVerdict("TASK_FAILED", then, backoff=then == JobState.QUEUED)


def after_eviction(job: Job, then: JobState) -> JobState:
    """Return the state after an eviction that would make the job `then`; the job's rules may end or suspend
    a job that would be queued again.
    """
    if then != JobState.QUEUED:
        return then
    for rule in rules_for(job, "task_evicted"):
        if rule["do"] != "restart_job":
            return JobState.SUSPENDED if rule["do"] == "abort_job" else JobState.FAILED
        if "max" not in rule:
            return then
        ended = Attempt.unscoped.filter(job=job, ended_at__isnull=False)
        if ended.exclude(end_reason__in=OWN_END_REASONS).count() < int(rule["max"]):
            return then
    # The job has rules for evictions and all have reached their limits, so it fails.
    return then if rule_for(job, "task_evicted") is None else JobState.FAILED
