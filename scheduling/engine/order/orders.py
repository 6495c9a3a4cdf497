"""Criteria by which jobs are ordered; smaller keys come first, the job id closes every chain."""

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


class Owned:
    """Who stays inside what its queue owns goes before all who borrow, wherever they are in the tree."""

    name = "owned"

    def key(self, candidate: Candidate) -> bool:
        return candidate.borrow_level > 0


class NonBorrowing:
    """Whose part of the tree stays inside what it owns, on what the job asks for, goes first."""

    name = "non-borrowing"

    def key(self, candidate: Candidate) -> bool:
        return candidate.borrows


class DominantShare:
    """The smaller dominant resource share, the job included, goes first."""

    name = "share"

    def key(self, candidate: Candidate) -> tuple[bool, float, DominantResourceShare]:
        # Rounding never puts two ratios the other way round, and most are told apart by it alone.
        share = candidate.share
        return (share.infinite, share.numerator / share.denominator, share)


class Preempting:
    """Jobs for which others were told to leave go first, so that nobody else takes what was freed."""

    name = "preempting"

    def key(self, candidate: Candidate) -> bool:
        return not candidate.job.preempting


class Holding:
    """Jobs that hold their quota already, and are looked at again, go first."""

    name = "holding"

    def key(self, candidate: Candidate) -> bool:
        return candidate.job.state is not JobState.LIVE


OWNED = Owned()
ORDERS = (
    Priority(),
    Submitted(),
    RunTime(),
    BorrowLevel(),
    OWNED,
    NonBorrowing(),
    DominantShare(),
    Preempting(),
    Holding(),
)


def fair_chain(chain: Sequence[str], fair: FairSharing) -> tuple[str, ...]:
    """The names of a chain with the share in the place of the borrow level.

    The borrow level says how far up a job reaches; under fair sharing that is what the tournament
    decides level by level, by who borrows and by whose share is larger.
    """
    fairly = ("non-borrowing", "share") if fair.prefer_non_borrowing else ("share",)
    return tuple(name for item in chain for name in (fairly if item == "borrow-level" else (item,)))


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
