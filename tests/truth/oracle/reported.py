"""The reported reason of one job, and the faults in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.engine.model import JobOutcome
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.facts import Facts


@dataclass(frozen=True)
class Fault:
    """A false report: `part` is `reason`, or the name of a number, whose true value is `actual`."""

    job: str
    reason: str
    part: str
    reported: object
    actual: object

    def __str__(self) -> str:
        what = f"{self.job}: {self.reason}: {self.part}"
        return f"{what} is reported as {self.reported!r}, actual is {self.actual!r}"


class ReportedReason:
    """The reported reason of one job, with the facts about the job."""

    def __init__(self, cell: Cell, outcome: JobOutcome) -> None:
        assert outcome.reason is not None
        self.cell, self.outcome, self.reason = cell, outcome, outcome.reason
        self.job = cell.jobs[outcome.job]
        self.facts = Facts(cell, self.job)
        self.numbers = outcome.numbers

    def fault(self, part: str, reported: object, actual: object) -> Fault:
        """Return a fault."""
        return Fault(self.job.id, self.reason.value, part, reported, actual)

    def number(self, name: str, actual: int | None) -> Iterator[Fault]:
        """Yield a fault if a number is reported and wrong."""
        if name in self.numbers and self.numbers[name] != actual:
            yield self.fault(name, self.numbers[name], actual)
