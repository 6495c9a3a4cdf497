"""What one job is told, and what is false in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.engine.model import JobOutcome, Node
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.facts import Facts
from tests.truth.oracle.places import Task, areas, most


@dataclass(frozen=True)
class Fault:
    """One false thing: in `part` (`reason`, or the name of a number) is `said`, and `true` would be right."""

    job: str
    reason: str
    part: str
    said: object
    true: object

    def __str__(self) -> str:
        return f"{self.job}: {self.reason}: {self.part} is {self.said!r}, true is {self.true!r}"


class Told:
    """What one job is told, beside what is so."""

    def __init__(self, cell: Cell, outcome: JobOutcome) -> None:
        assert outcome.reason is not None
        self.cell, self.outcome, self.reason = cell, outcome, outcome.reason
        self.job = cell.jobs[outcome.job]
        self.facts = Facts(cell, self.job)
        self.numbers = outcome.numbers

    def fault(self, part: str, said: object, true: object) -> Fault:
        """Something false."""
        return Fault(self.job.id, self.reason.value, part, said, true)

    def number(self, name: str, true: int | None) -> Iterator[Fault]:
        """A number, where it is given at all."""
        if name in self.numbers and self.numbers[name] != true:
            yield self.fault(name, self.numbers[name], true)


def most_together(told: Told, task: Task, nodes: Sequence[Node], wanted: int) -> int:
    """How many like tasks stand together, up to a number."""
    return max((most(task, area, wanted) for area in areas(told.job, nodes)), default=0)
