"""The request and the result of a search for victims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduling.engine.model import EvictRule, FlavorResource, Job, Queue
from scheduling.engine.placement.board import ScoreBoard

PlacementCheck = Callable[[], bool]
"""Whether the preemptor finds its places in the snapshot as it is at the moment of the call."""

CountedShape = tuple[ScoreBoard, int]
"""The board of the one shape that the preemptor's tasks have, and how many of them need a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The job for which victims are searched.

    `usage` is everything that the job will be charged. `contested` are the quotas of which some amount must
    be released before it fits: a candidate must be charged for one of them. If quota suffices and only
    placement fails, `contested` names the quotas of the flavors that the job would use.
    """

    job: Job
    queue: Queue
    usage: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One victim, and the rule that allows its eviction.

    `tasks` are ids of surplus allocations that are evicted while the rest of the job runs on; empty means the
    whole job. `already_leaving` says that the job was terminating before: its eviction costs nothing more.
    """

    job: str
    rule: EvictRule
    tasks: tuple[str, ...] = ()
    already_leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSet:
    """The victims that make a preemptor fit; empty if no legal set does.

    `protected_until` is set if every legal set would contain a job inside its guaranteed run time. `steps`
    counts the checks of the search, `exhausted` says that the budget ended it.
    """

    targets: tuple[Target, ...] = ()
    protected_until: float | None = None
    steps: int = 0
    exhausted: bool = False
    numbers: Mapping[str, int | str] = field(default_factory=dict)
