"""What a plug-in of each kind must be able to do.

Vetoes, scores and orders are many and combine by a fixed rule: all vetoes must agree, scores are
summed by weight, the first order that tells two jobs apart wins. A provider answers alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from quotas.tree import Share
from scheduling.engine.model import Job
from scheduling.engine.placement.question import Question
from scheduling.engine.state.fleet import Bools, Ints, Rows

NO_SHARE = Share()


@runtime_checkable
class Veto(Protocol):
    """A predicate on nodes. Its name is the code under which refusals are counted.

    `fixed` says that placing tasks cannot change the answer, so it is asked once per shape.
    """

    name: str
    fixed: bool

    def allows(self, question: Question, rows: Rows) -> Bools:
        """Which of the rows may take one more task of this shape."""
        ...


@runtime_checkable
class Score(Protocol):
    """A preference among nodes, 0 to 100, higher is better.

    `normalised` stretches the scores over the feasible nodes to 0–100 before they are weighed.
    """

    name: str
    normalised: bool

    def score(self, question: Question, rows: Rows) -> Ints:
        """The score of each row; asked of feasible rows and of others, whose answer is not used."""
        ...


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
    share: Share = NO_SHARE


@runtime_checkable
class Order(Protocol):
    """One criterion of an order. The smaller key comes first; equal keys leave it to the next."""

    name: str

    def key(self, candidate: Candidate) -> Any:
        """A comparable value of one fixed type."""
        ...


@runtime_checkable
class DevicePicker(Protocol):
    """The provider that chooses the cards on a node that was chosen for a task."""

    name: str

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """The columns of the cards, as many as the task asks for; the row is known to fit."""
        ...
