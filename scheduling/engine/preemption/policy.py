"""Whom a job may push out by priority and age."""

from __future__ import annotations

from scheduling.engine.model import Job, PreemptOthers, PreemptWithin

Policy = PreemptWithin | PreemptOthers

_NEVER = PreemptWithin.NEVER.value
_LOWER = PreemptWithin.LOWER_PRIORITY.value
_LOWER_OR_NEWER = PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY.value


def satisfies(preemptor: Job, candidate: Job, policy: Policy) -> bool:
    """Whether the policy lets `preemptor` push `candidate` out.

    Among equals the one that lined up first goes first; two that lined up together leave each other alone.
    """
    if policy == _NEVER:
        return False
    if policy == _LOWER:
        return candidate.priority < preemptor.priority
    if policy == _LOWER_OR_NEWER:
        newer = preemptor.submitted_at < candidate.submitted_at
        return candidate.priority < preemptor.priority or (candidate.priority == preemptor.priority and newer)
    return True


def highest_priority(preemptor: Job, policy: Policy) -> float:
    """No job above this priority satisfies the policy; infinite where priority does not matter."""
    if policy == _NEVER:
        return float("-inf")
    if policy == _LOWER:
        return preemptor.priority - 1
    return preemptor.priority if policy == _LOWER_OR_NEWER else float("inf")


def may_push_anyone(policy: Policy) -> bool:
    """Whether there is anybody at all that the policy lets go."""
    return policy != _NEVER
