"""Where a failed attempt leads: back into the queue, or to the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase
from scheduling.models import Job, JobState

# The kubelet's words for "this node could not take the pod": the cluster's fault, not the program's.
_NOT_THE_PROGRAM: Final = (
    "OutOf",
    "UnexpectedAdmissionError",
    "NodeLost",
    "NodeShutdown",
    "DeviceUnhealthy",
    "Evicted",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` names the cause, `then` the state after the eviction, `backoff` whether to pause first."""

    rule: str
    then: JobState
    backoff: bool


def after_failure(job: Job, cause: PodObservation) -> Verdict:
    """Decide what follows a failed task.

    A pod that the cluster lost or could not take is tried again, with back-off, without limit: the
    job was accepted and waits with a reason. A program that failed is tried again only as the job's
    own lifecycle rules allow.
    """
    if cause.phase is PodPhase.GONE:
        return Verdict("NODE_LOST", JobState.QUEUED, backoff=False)
    if cause.reason.startswith(_NOT_THE_PROGRAM):
        rule = (
            "NODE_LOST"
            if cause.reason.startswith(("NodeLost", "NodeShutdown", "DeviceUnhealthy"))
            else "NOT_READY"
        )
        return Verdict(rule, JobState.QUEUED, backoff=rule == "NOT_READY")
    if _may_restart(job, cause.exit_code):
        return Verdict("TASK_FAILED", JobState.QUEUED, backoff=True)
    return Verdict("TASK_FAILED", JobState.FAILED, backoff=False)


def _may_restart(job: Job, exit_code: int | None) -> bool:
    rules: list[dict[str, Any]] = job.lifecycle
    for rule in rules:
        if rule.get("on") != "task_failed" or rule.get("do") != "restart_job":
            continue
        codes = rule.get("exit_codes")
        if codes and exit_code not in codes:
            continue
        return bool(job.failures < int(rule.get("max", 1)))
    return False
