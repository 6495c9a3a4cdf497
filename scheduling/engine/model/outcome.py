"""The result of a cycle: decisions, and one outcome with a reason for each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduling.engine.model.job import Allocation
from scheduling.engine.model.kinds import DecisionKind, EvictRule, HelpCode, OutcomeStatus, Reason
from scheduling.engine.model.quota import Charge

Numbers = Mapping[str, int | str]
"""Named facts behind a code: amounts are whole numbers, names of flavors, nodes or jobs are strings."""

NO_NUMBERS: Numbers = {}


@dataclass(frozen=True, slots=True)
class Help:
    """One change that would let the job start."""

    code: HelpCode
    numbers: Numbers = field(default_factory=dict)


class JobOutcome(NamedTuple):
    """The outcome of one job. `reason` is None exactly when it was admitted."""

    job: str
    status: OutcomeStatus
    reason: Reason | None = None
    numbers: Numbers = NO_NUMBERS
    help: tuple[Help, ...] = ()

    @staticmethod
    def waiting(job: str, reason: Reason, numbers: Numbers, *ways: Help) -> JobOutcome:
        """Return the outcome of a job that waits; each of `ways` would help."""
        return JobOutcome(job, OutcomeStatus.WAITING, reason, numbers, ways)


class Decision(NamedTuple):
    """One decision for one job.

    `admit`: `allocations` has one entry per task (node, cards, charges), `borrowed` the part of the charges
    above the queue's own nominal. `evict`: `rule` and `beneficiary` are the rule and the job that it is for.
    `shrink`, `grow` and `migrate`: `allocations` are the new allocations of the job, `released` the ids of
    those that end. `park` with `allocations` is a claim: the job gets them once `released`, the allocations
    of other jobs, have ended.
    """

    kind: DecisionKind
    job: str
    allocations: tuple[Allocation, ...] = ()
    borrowed: tuple[Charge, ...] = ()
    rule: EvictRule | None = None
    beneficiary: str | None = None
    released: tuple[str, ...] = ()
    numbers: Numbers = NO_NUMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The result of one cycle: decisions in their order, outcomes in job order.

    `timings` (seconds per action) is filled only when the configuration brings a stopwatch; it is no part of
    equality or of the serialised result, because two equal cycles take different times.
    """

    decisions: tuple[Decision, ...]
    outcomes: tuple[JobOutcome, ...]
    counters: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
