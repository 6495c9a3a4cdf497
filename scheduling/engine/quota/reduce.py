"""The largest size at which an elastic job fits: partial admission.

Source: Kueue's partial admission. Roles shrink together, each in proportion to what it can do without,
and a binary search finds the smallest reduction that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from scheduling.engine.model import Job

R = TypeVar("R")
Counts = Mapping[str, int]
"""Tasks by role."""


def full_counts(job: Job) -> dict[str, int]:
    """The job's size without the tasks that have ended."""
    return {role.name: max(0, role.replicas - role.ended) for role in job.roles}


def spare(job: Job) -> dict[str, int]:
    """How many tasks each role can do without."""
    return {role.name: max(0, role.replicas - max(role.least, role.ended)) for role in job.roles}


def reduced(job: Job, reduction: int) -> dict[str, int]:
    """The size at one step of the search; step 0 is the full size, the sum of what can be spared the
    smallest. Every role loses its part, rounded down."""
    full, extra = full_counts(job), spare(job)
    total = sum(extra.values())
    return {name: full[name] - (extra[name] * reduction // total if total else 0) for name in full}


def largest(job: Job, fits: Callable[[Counts], R | None]) -> R | None:
    """What `fits` answers for the largest size below the full one; None where no size fits, or where the
    job has none to choose from. `fits` must hold for every size below one that it holds for.

    A job that names a smallest gang is not made smaller than that.
    """
    low, high = 1, _steps(job)
    if high < low:
        return None
    best = fits(reduced(job, high))
    if best is None:
        return None
    while low < high:
        middle = (low + high) // 2
        found = fits(reduced(job, middle))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _steps(job: Job) -> int:
    total = sum(spare(job).values())
    if job.min_available is None:
        return total
    return min(total, sum(full_counts(job).values()) - job.min_available)
