"""Criteria that order jobs; the smaller key comes first, and the job id closes every chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quotas.tree import DominantResourceShare
from scheduling.engine.model import Job, JobState
from scheduling.engine.model.options import FairSharing
from scheduling.engine.order.protocols import Candidate, Order


class Priority:
    """Higher priority first."""

    name = "priority"

    def key(self, candidate: Candidate) -> int:
        return -candidate.job.priority


class SubmissionTime:
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
    """The criterion of the lower borrowing level first; level 0 is inside the queue's own quota."""

    name = "borrow-level"

    def key(self, candidate: Candidate) -> int:
        return candidate.borrow_level


class WithinQuota:
    """The criterion of jobs inside their queue's quota before all jobs that borrow, at whatever level."""

    name = "owned"

    def key(self, candidate: Candidate) -> bool:
        return candidate.borrow_level > 0


class NonBorrowing:
    """The criterion that puts subtrees inside their quota of what the job requests before others."""

    name = "non-borrowing"

    def key(self, candidate: Candidate) -> bool:
        return candidate.borrows


class DominantShare:
    """The criterion of the smaller dominant resource share first, with the job included."""

    name = "share"

    def key(self, candidate: Candidate) -> tuple[bool, float, DominantResourceShare]:
        # Rounding never reverses two ratios, and the rounded values alone decide most comparisons.
        share = candidate.share
        return (share.infinite, share.numerator / share.denominator, share)


class Preempting:
    """The criterion of jobs with victims first, so that no other job takes what the victims release."""

    name = "preempting"

    def key(self, candidate: Candidate) -> bool:
        return not candidate.job.preempting


class HoldingQuota:
    """The criterion of jobs that hold quota already and are evaluated again before all others."""

    name = "holding"

    def key(self, candidate: Candidate) -> bool:
        return candidate.job.state is not JobState.LIVE


WITHIN_QUOTA = WithinQuota()
ORDERS = (
    Priority(),
    SubmissionTime(),
    RunTime(),
    BorrowLevel(),
    WITHIN_QUOTA,
    NonBorrowing(),
    DominantShare(),
    Preempting(),
    HoldingQuota(),
)


def fair_chain(chain: Sequence[str], fair: FairSharing) -> tuple[str, ...]:
    """Return the names of a chain with the share in the place of the borrowing level.

    The borrowing level is the height in the tree that a job needs; under fair sharing the comparison at each
    level decides that, by borrowing and by share.
    """
    fairly = ("non-borrowing", "share") if fair.prefer_non_borrowing else ("share",)
    return tuple(name for item in chain for name in (fairly if item == "borrow-level" else (item,)))


def job_key(chain: Sequence[Order]) -> Callable[[Job], tuple[Any, ...]]:
    """Return the sort key of jobs inside a queue that a chain of criteria makes."""

    def key(job: Job) -> tuple[Any, ...]:
        candidate = Candidate(job)
        return (*[order.key(candidate) for order in chain], job.id)

    return key


def candidate_key(chain: Sequence[Order]) -> Callable[[Candidate], tuple[Any, ...]]:
    """Return the sort key of jobs across queues that a chain of criteria makes."""

    def key(candidate: Candidate) -> tuple[Any, ...]:
        return (*[order.key(candidate) for order in chain], candidate.job.id)

    return key
