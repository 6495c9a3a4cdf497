"""What a criterion of an order must be able to do; the first one that tells two jobs apart wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from quotas.tree import DominantResourceShare
from scheduling.engine.model import Job

NO_SHARE = DominantResourceShare()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job to be ordered; inside a queue only the job counts.

    Across queues, `borrow_level` says how far up the quota tree the job reaches. In a fair tournament
    `borrows` and `share` speak of the part of the tree that the job would win for, the job included:
    whether it uses more than it owns of what the job asks for, and its dominant resource share.
    """

    job: Job
    borrow_level: int = 0
    borrows: bool = False
    share: DominantResourceShare = NO_SHARE


@runtime_checkable
class Order(Protocol):
    """One criterion of an order. The smaller key comes first; equal keys leave it to the next."""

    name: str

    def key(self, candidate: Candidate) -> Any:
        """A comparable value of one fixed type."""
        ...
