"""The next step after a failed or evicted attempt: a new pod, the queue, or the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase
from scheduling.models import OWN_END_REASONS, Attempt, Job, JobState

# The kubelet's words for "this node could not take the pod": the cluster's fault, not the program's.
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

# The kubelet tries these again for ever, and nothing that it could find changes by itself.
_NEVER_STARTS: Final = {"InvalidImageName": "IMAGE_NAME_INVALID", "ErrImageNeverPull": "IMAGE_NOT_ON_NODE"}
_BY_ROOT: Final = ("CreateContainerConfigError", "runAsNonRoot")

IN_PLACE: Final = ("restart_task", "restart_role")
"""Actions that give nothing back: the pods are made again by the same names, on the same cards."""


@dataclass(frozen=True, slots=True)
class RetryVerdict:
    """`rule` names the cause, `then` the state after the eviction, `backoff` whether to pause first."""

    rule: str
    then: JobState
    backoff: bool


def never_starts(seen: PodObservation) -> str:
    """The code of what keeps a pod from ever starting; empty for one that may yet start."""
    if seen.phase not in (PodPhase.PENDING, PodPhase.STARTING):
        return ""
    reason, by_root = _BY_ROOT
    if seen.reason == reason and by_root in seen.message:
        return "IMAGE_RUNS_AS_ROOT"
    return _NEVER_STARTS.get(seen.reason, "")


def rules_for(job: Job, event: str, **facts: Any) -> Iterator[Mapping[str, Any]]:
    """Return the job's lifecycle rules about this event, in their order.

    `facts` are the exit code and the role of the task; a rule that names neither is about all.
    """
    rules: list[dict[str, Any]] = job.lifecycle
    for rule in rules:
        codes, role = rule.get("exit_codes"), rule.get("role")
        about = rule["on"] == event
        if about and (not codes or facts.get("exit_code") in codes) and role in (None, facts.get("role")):
            yield rule


def rule_for(job: Job, event: str, **facts: Any) -> Mapping[str, Any] | None:
    """The first of `rules_for`."""
    return next(rules_for(job, event, **facts), None)


def after_failed_task(job: Job, role: str, restarts: int, cause: PodObservation) -> str:
    """Return the action of the job's rules for a failed task: the first whose limit is not reached; empty for
    none.

    `restarts`: how often the task has been started again where it was. A pod that the cluster lost or could
    not take has not failed by its own doing, and no rule is about it.
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
    """Return whether the cluster ended the pod or never ran it: a kubelet that refuses a pod gives a
    reason and no exit code.
    """
    refused = bool(cause.reason) and cause.exit_code is None
    return refused or cause.reason.startswith(_NOT_THE_PROGRAM)


def after_failure(cause: PodObservation, action: str) -> RetryVerdict:
    """Decide what follows a failed task that is not restarted in place.

    A pod that the cluster lost or could not take is tried again, with back-off, without limit: the
    job was accepted and waits with a reason. A program that failed is tried again only as the job's
    own lifecycle rules allow; `action` is what they do.
    """
    if cause.phase is PodPhase.REMOVED:
        return RetryVerdict("POD_DELETED", JobState.QUEUED, backoff=False)
    if _is_not_the_program(cause):
        lost = cause.reason.startswith(_NODE)
        return RetryVerdict("NODE_LOST" if lost else "NOT_READY", JobState.QUEUED, backoff=not lost)
    then = {"restart_job": JobState.QUEUED, "abort_job": JobState.SUSPENDED}.get(action, JobState.FAILED)
    return RetryVerdict("TASK_FAILED", then, backoff=then == JobState.QUEUED)


def after_eviction(job: Job, then: JobState) -> JobState:
    """Return the next state after an eviction that would put the job back into the queue; its rules may
    end it instead.
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
    # Rules that speak of evictions, all at their limits: the last word is theirs, not the queue's.
    return then if rule_for(job, "task_evicted") is None else JobState.FAILED
