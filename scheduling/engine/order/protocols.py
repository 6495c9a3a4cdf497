"""The interface of a criterion of an order; the first criterion with different keys decides."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from quotas.tree import DominantResourceShare
from scheduling.engine.model import Job

NO_SHARE = DominantResourceShare()


class Candidate(NamedTuple):
    """A job to be ordered; inside a queue only the job counts.

    Across queues, `borrow_level` is the height in the quota tree that the job needs. Under fair sharing
    `borrows` and `share` belong to the subtree for which the job competes, with the job included: whether it
    uses more than its quota of what the job requests, and its dominant resource share.
    """

    job: Job
    borrow_level: int = 0
    borrows: bool = False
    share: DominantResourceShare = NO_SHARE


@runtime_checkable
class Order(Protocol):
    """One criterion of an order. The smaller key comes first; equal keys leave it to the next criterion."""

    name: str

    def key(self, candidate: Candidate) -> Any:
        """Return a comparable value of one fixed type."""
        ...
