"""This module defines what a plug-in of placement must implement.

Vetoes and scores are many and combine by a fixed rule: all vetoes must agree, and scores are summed by
weight. A device picker decides alone.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from scheduling.engine.model import Extended
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Ints, Rows


@runtime_checkable
class Veto(Protocol):
    """A predicate on nodes. Its name is the code under which refusals are counted.

    `fixed` says that placing tasks cannot change the result, so it is evaluated once per shape.
    """

    name: str
    fixed: bool

    def allows(self, question: Question, rows: Rows) -> Bools:
        """Return which of the rows may take one more task of this shape."""
        ...


@runtime_checkable
class Score(Protocol):
    """A preference among nodes, 0 to 100, higher is better.

    `normalised` stretches the scores over the feasible nodes to 0–100 before they are weighed.
    """

    name: str
    normalised: bool

    def score(self, question: Question, rows: Rows) -> Ints:
        """Return the score of each row; results for infeasible rows are ignored."""
        ...


@runtime_checkable
class DevicePicker(Protocol):
    """The provider that chooses the cards on a node that was chosen for a task."""

    name: str

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """Return the columns of the cards, as many as the task asks for; the row is known to fit."""
        ...


@runtime_checkable
class ResourcePicker(DevicePicker, Protocol):
    """A device picker that also allocates named resources of the node which the request does not name, such
    as the CPUs of a NUMA zone."""

    def pick_resources(self, question: Question, row: int) -> tuple[Extended, ...]:
        """Return the amounts that the task takes of a row that is known to fit."""
        ...
