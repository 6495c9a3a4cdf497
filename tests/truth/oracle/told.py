"""The reported reason of one job, and the faults in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.engine.model import JobOutcome, Node
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.facts import Facts
from tests.truth.oracle.places import Task, areas, most


@dataclass(frozen=True)
class Fault:
    """A false report: `part` (`reason`, or the name of a number) is `said`, and `true` would be right."""

    job: str
    reason: str
    part: str
    said: object
    true: object

    def __str__(self) -> str:
        return f"{self.job}: {self.reason}: {self.part} is {self.said!r}, true is {self.true!r}"


class Told:
    """The reported reason of one job, with the facts about the job."""

    def __init__(self, cell: Cell, outcome: JobOutcome) -> None:
        assert outcome.reason is not None
        self.cell, self.outcome, self.reason = cell, outcome, outcome.reason
        self.job = cell.jobs[outcome.job]
        self.facts = Facts(cell, self.job)
        self.numbers = outcome.numbers

    def fault(self, part: str, said: object, true: object) -> Fault:
        """Return a fault."""
        return Fault(self.job.id, self.reason.value, part, said, true)

    def number(self, name: str, true: int | None) -> Iterator[Fault]:
        """Yield a fault if a number is reported and wrong."""
        if name in self.numbers and self.numbers[name] != true:
            yield self.fault(name, self.numbers[name], true)


def most_together(told: Told, task: Task, nodes: Sequence[Node], wanted: int) -> int:
    """Return how many equal tasks fit together, up to a number."""
    return max((most(task, area, wanted) for area in areas(told.job, nodes)), default=0)
