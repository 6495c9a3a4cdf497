"""Criteria by which jobs are ordered; smaller keys come first, the job id closes every chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduling.engine.model import Job
from scheduling.engine.plugins.protocols import Candidate, Order


class Priority:
    """Higher priority first."""

    name = "priority"

    def key(self, candidate: Candidate) -> int:
        return -candidate.job.priority


class Submitted:
    """Earlier submission first; an evicted job keeps its time."""

    name = "submitted"

    def key(self, candidate: Candidate) -> float:
        return candidate.job.submitted_at


class RunTime:
    """Shorter run-time limit first; a job without a limit comes after all that have one."""

    name = "run-time"

    def key(self, candidate: Candidate) -> tuple[bool, int]:
        limit = candidate.job.max_run_s
        return (limit is None, limit or 0)


class BorrowLevel:
    """Who can stay lower in the quota tree goes first; 0 is inside the own quota."""

    name = "borrow-level"

    def key(self, candidate: Candidate) -> int:
        return candidate.borrow_level


ORDERS = (Priority(), Submitted(), RunTime(), BorrowLevel())


def job_key(chain: Sequence[Order]) -> Callable[[Job], tuple[Any, ...]]:
    """The total order of jobs inside a queue that a chain of criteria makes."""

    def key(job: Job) -> tuple[Any, ...]:
        candidate = Candidate(job)
        return (*(order.key(candidate) for order in chain), job.id)

    return key


def candidate_key(chain: Sequence[Order]) -> Callable[[Candidate], tuple[Any, ...]]:
    """The total order of candidates across queues."""

    def key(candidate: Candidate) -> tuple[Any, ...]:
        return (*(order.key(candidate) for order in chain), candidate.job.id)

    return key
