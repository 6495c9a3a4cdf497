"""Where a failed or evicted attempt leads: to a new pod, back into the queue, or to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase
from scheduling.models import Job, JobState

# The kubelet's words for "this node could not take the pod": the cluster's fault, not the program's.
_NODE: Final = ("NodeLost", "NodeShutdown", "DeviceUnhealthy")
_NOT_THE_PROGRAM: Final = ("OutOf", "UnexpectedAdmissionError", "Evicted", *_NODE)

# The kubelet tries these again for ever, and nothing that it could find changes by itself.
_NEVER_STARTS: Final = {"InvalidImageName": "IMAGE_NAME_INVALID", "ErrImageNeverPull": "IMAGE_NOT_ON_NODE"}
_BY_ROOT: Final = ("CreateContainerConfigError", "runAsNonRoot")


@dataclass(frozen=True, slots=True)
class Verdict:
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


def rule_for(job: Job, event: str, **facts: Any) -> Mapping[str, Any] | None:
    """The first of the job's lifecycle rules that is about this event.

    `facts` are the exit code and the role of the task; a rule that names neither is about all.
    """
    rules: list[dict[str, Any]] = job.lifecycle
    for rule in rules:
        codes, role = rule.get("exit_codes"), rule.get("role")
        about = rule["on"] == event
        if about and (not codes or facts.get("exit_code") in codes) and role in (None, facts.get("role")):
            return rule
    return None


def restarts_in_place(job: Job, role: str, restarts: int, cause: PodObservation) -> bool:
    """Whether a failed task is to be started again where it was, without giving anything back."""
    if cause.phase is not PodPhase.FAILED or cause.reason.startswith(_NOT_THE_PROGRAM):
        return False
    rule = rule_for(job, "task_failed", exit_code=cause.exit_code, role=role)
    return rule is not None and rule["do"] == "restart_task" and restarts < int(rule.get("max", 1))


def after_failure(job: Job, role: str, cause: PodObservation, *, before: int) -> Verdict:
    """Decide what follows a failed task that is not restarted in place.

    A pod that the cluster lost or could not take is tried again, with back-off, without limit: the
    job was accepted and waits with a reason. A program that failed is tried again only as the job's
    own lifecycle rules allow; `before` is how many attempts its failures have ended so far.
    """
    if cause.phase is PodPhase.GONE:
        return Verdict("NODE_LOST", JobState.QUEUED, backoff=False)
    if cause.reason.startswith(_NOT_THE_PROGRAM):
        lost = cause.reason.startswith(_NODE)
        return Verdict("NODE_LOST" if lost else "NOT_READY", JobState.QUEUED, backoff=not lost)
    rule = rule_for(job, "task_failed", exit_code=cause.exit_code, role=role)
    again = rule is not None and rule["do"] == "restart_job" and before < int(rule.get("max", 1))
    return Verdict("TASK_FAILED", JobState.QUEUED if again else JobState.FAILED, backoff=again)


def after_eviction(job: Job, then: JobState) -> JobState:
    """Where an eviction leads that would put the job back into the queue; its rules may end it instead."""
    rule = rule_for(job, "task_evicted")
    return JobState.FAILED if then == JobState.QUEUED and rule and rule["do"] == "fail_job" else then
