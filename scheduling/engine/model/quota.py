"""Quota nodes and queues as one cycle sees them.

Amounts are whole numbers of the resource's unit; None is unlimited. Usage is what the ledger holds
at the leaves; what a folder uses follows from its children and is never passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from foundation.quantities import Resource
from scheduling.engine.model.kinds import AllocationMode, StopPolicy, Strategy


class FlavorResource(NamedTuple):
    """What a quota is kept for: one resource of one flavor."""

    flavor: str
    resource: Resource


@dataclass(frozen=True, slots=True, order=True)
class Charge:
    """An amount of one resource of one flavor."""

    flavor: str
    resource: Resource
    amount: int

    @property
    def key(self) -> FlavorResource:
        """The quota that this amount counts against."""
        return FlavorResource(self.flavor, self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one quota node for one resource of one flavor. None is unlimited."""

    flavor: str
    resource: Resource
    nominal: int | None
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    @property
    def key(self) -> FlavorResource:
        """What these limits apply to."""
        return FlavorResource(self.flavor, self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNode:
    """A point of the quota tree. `parent` is None at the root; `usage` counts at leaves only.

    `weight_milli` is the weight for fair sharing in thousandths, so that 0.5 is exact.
    """

    id: str
    parent: str | None = None
    quotas: tuple[Quota, ...] = ()
    usage: tuple[Charge, ...] = ()
    weight_milli: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Where jobs line up: a leaf of the quota tree with an order and rules.

    `flavors` are tried in this order. `ordering` names an ordering of the engine's configuration.
    """

    id: str
    quota_node: str
    flavors: tuple[str, ...] = ()
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    ordering: str = "fifo"
    stop_policy: StopPolicy = StopPolicy.NONE
    allocation_mode: AllocationMode = AllocationMode.DYNAMIC
    preemption: bool = True
