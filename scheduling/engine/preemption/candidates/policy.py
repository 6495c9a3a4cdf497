"""Preemption policies: the jobs that a job may preempt, by priority and submission time."""

from __future__ import annotations

from scheduling.engine.model import Job, PreemptOthers, PreemptWithin

PreemptPolicy = PreemptWithin | PreemptOthers

_NEVER = PreemptWithin.NEVER.value
_LOWER = PreemptWithin.LOWER_PRIORITY.value
_LOWER_OR_NEWER = PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY.value


def may_preempt(preemptor: Job, candidate: Job, policy: PreemptPolicy) -> bool:
    """Return whether the policy lets `preemptor` preempt `candidate`.

    Of jobs of equal priority the one that was submitted first may preempt the other; two that were submitted
    at the same time do not preempt each other.
    """
    if policy == _NEVER:
        return False
    if policy == _LOWER:
        return candidate.priority < preemptor.priority
    if policy == _LOWER_OR_NEWER:
        newer = preemptor.submitted_at < candidate.submitted_at
        return candidate.priority < preemptor.priority or (candidate.priority == preemptor.priority and newer)
    return True


def max_victim_priority(preemptor: Job, policy: PreemptPolicy) -> float:
    """Return the highest priority that the policy allows to preempt; infinity if priority does not matter."""
    if policy == _NEVER:
        return float("-inf")
    if policy == _LOWER:
        return preemptor.priority - 1
    return preemptor.priority if policy == _LOWER_OR_NEWER else float("inf")


def allows_any_victim(policy: PreemptPolicy) -> bool:
    """Return whether the policy allows any preemption at all."""
    return policy != _NEVER
