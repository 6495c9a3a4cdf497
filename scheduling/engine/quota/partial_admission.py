"""Partial admission: the search for the largest size at which an elastic job fits.

Source: Kueue, KEP-420 "Partial admission". Roles shrink together, each in proportion to its surplus, and a
binary search finds the smallest reduction that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from scheduling.engine.model import Job

R = TypeVar("R")
RoleCounts = Mapping[str, int]
"""Tasks by role."""


def full_counts(job: Job) -> dict[str, int]:
    """Return the size of the job by role, without tasks that have ended."""
    return {role.name: max(0, role.replicas - role.ended) for role in job.roles}


def count_surplus(job: Job) -> dict[str, int]:
    """Return the number of tasks of each role above its minimum."""
    return {role.name: max(0, role.replicas - max(role.min_count, role.ended)) for role in job.roles}


def reduce_counts(job: Job, reduction: int) -> dict[str, int]:
    """Return the size at one step of the search, by role.

    Step 0 is the full size, and the step equal to the whole surplus is the smallest size. Each role shrinks
    by its part, rounded down.
    """
    full, extra = full_counts(job), count_surplus(job)
    total = sum(extra.values())
    return {name: full[name] - (extra[name] * reduction // total if total else 0) for name in full}


def find_largest_size(job: Job, fits: Callable[[RoleCounts], R | None]) -> R | None:
    """Return the result of `fits` for the largest size below the full one that fits, or None.

    `fits` must accept every size below one that it accepts. The size never falls below the job's
    `min_available`.
    """
    low, high = 1, _count_steps(job)
    if high < low:
        return None
    best = fits(reduce_counts(job, high))
    if best is None:
        return None
    while low < high:
        middle = (low + high) // 2
        found = fits(reduce_counts(job, middle))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _count_steps(job: Job) -> int:
    total = sum(count_surplus(job).values())
    if job.min_available is None:
        return total
    return min(total, sum(full_counts(job).values()) - job.min_available)
