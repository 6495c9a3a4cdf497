"""What a cycle hands back: decisions, and one outcome with a reason for each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.engine.model.job import Allocation
from scheduling.engine.model.kinds import (
    DecisionKind,
    EvictRule,
    HelpCode,
    OutcomeStatus,
    Reason,
    Verdict,
)
from scheduling.engine.model.quota import Charge

Numbers = Mapping[str, int | str]
"""Named facts behind a code: amounts are whole numbers, names of flavors, nodes or jobs are strings."""


@dataclass(frozen=True, slots=True)
class Help:
    """One thing that would let the job start."""

    code: HelpCode
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one job left the cycle. `reason` is None exactly when it was admitted."""

    job: str
    status: OutcomeStatus
    reason: Reason | None = None
    numbers: Numbers = field(default_factory=dict)
    help: tuple[Help, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing to do.

    `admit`: `allocations` holds one entry per task (node, cards, charges), `borrowed` the part of
    the charges above the queue's own nominal. `evict`: `rule` and `beneficiary` say by which rule
    and for which job. `shrink`, `grow` and `migrate`: `allocations` is what the job holds more
    afterwards and `released` the ids of what it gives back. `park` with `allocations` is a claim: the
    places that the job gets once `released`, held by others, are gone.
    """

    kind: DecisionKind
    job: str
    allocations: tuple[Allocation, ...] = ()
    borrowed: tuple[Charge, ...] = ()
    rule: EvictRule | None = None
    beneficiary: str | None = None
    released: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """One turn of one job, as a record for whoever wants to follow a cycle step by step.

    `borrow_level` is how far up the quota tree it would have reached. `more_flavors` says that the
    search over the queue's flavors ended before the last one, `again` that the job was judged a second
    time because others had taken its victims.
    """

    job: str
    queue: str
    verdict: Verdict
    borrow_level: int = 0
    victims: tuple[str, ...] = ()
    more_flavors: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The whole answer of one cycle, in decision order and in job order.

    `considered` lists the turns in the order in which they were processed, where the configuration
    asks for it. `timings` (seconds per action) is filled only when the configuration brings a
    stopwatch; it is no part of equality or of the serialised result, because two equal cycles take
    different times.
    """

    decisions: tuple[Decision, ...]
    outcomes: tuple[Outcome, ...]
    counters: Mapping[str, int] = field(default_factory=dict)
    considered: tuple[Considered, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
