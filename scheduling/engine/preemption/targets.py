"""What a victim search is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduling.engine.model import EvictRule, FlavorResource, Job, Queue
from scheduling.engine.placement.board import Board

Room = Callable[[], bool]
"""Whether the preemptor finds its places in the snapshot as it is at the moment of the call."""

Alike = tuple[Board, int]
"""The board of the one shape that the preemptor's tasks have, and how many of them need a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The job that others may have to make way for.

    `usage` is everything that it will be charged, `contested` the quotas of which something must be
    given back before it fits: a candidate must hold some of one of them. Where quota suffices and
    only room is missing, `contested` names the flavors' quotas that the job would use.
    """

    job: Job
    queue: Queue
    usage: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One victim, and the rule that allows it.

    `tasks` are ids of allocations that leave while the rest of the job stays (elastic surplus); empty
    means the whole job. `already` says that it was told to leave before: it costs nothing more.
    """

    job: str
    rule: EvictRule
    tasks: tuple[str, ...] = ()
    already: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSet:
    """The victims that make a preemptor fit; none when no legal set does.

    `protected_until` is set when every legal set would touch a job inside its guaranteed run time.
    `steps` counts the trials of the search, `exhausted` says that its budget ended it.
    """

    targets: tuple[Target, ...] = ()
    protected_until: float | None = None
    steps: int = 0
    exhausted: bool = False
    numbers: Mapping[str, int | str] = field(default_factory=dict)
