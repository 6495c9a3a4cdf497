"""The row of a reason code: its label, severity, gate, meaning, sentences and usual help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ReasonSeverity(StrEnum):
    """The weight of a reason for the owner of the job."""

    ERROR = "error"
    """The job, or what it depends on, has to be changed or repaired."""
    WAITING = "waiting"
    """The job goes on once others finish or capacity is released."""
    PAUSED = "paused"
    """A user suspended the job."""
    INFO = "info"
    """The job has not been evaluated."""


class Gate(StrEnum):
    """The check that a job hasn't passed; the order is that in which they are evaluated."""

    FIT = "fit"
    POLICY = "policy"
    OPEN = "open"
    TURN = "turn"
    QUOTA = "quota"
    COHORT = "cohort"
    ROOM = "room"
    PREEMPTION = "preemption"
    EVALUATION = "evaluation"
    CLUSTER = "cluster"
    """The job is admitted; its cluster has not started or removed its pods."""


_RELEASED_BY_PREEMPTION: Final = (Gate.QUOTA, Gate.COHORT, Gate.ROOM, Gate.PREEMPTION)


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """One row of the table, in English; `sentences` and `helps` begin with the most specific.

    Of these the first is shown whose numbers are all known, so the last of each needs none.
    """

    code: str
    label: str
    severity: ReasonSeverity
    gate: Gate
    meaning: str
    sentences: tuple[str, ...]
    helps: tuple[str, ...]

    @property
    def may_end_by_preemption(self) -> bool:
        """Return whether the job waits for quota or room on nodes, which preempted jobs may release."""
        return self.severity is ReasonSeverity.WAITING and self.gate in _RELEASED_BY_PREEMPTION
