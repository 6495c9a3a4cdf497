"""Quota nodes and queues of one cycle.

Amounts are whole numbers of the resource's unit; None is unlimited. Usage is reserved quota at the leaves;
the usage of a folder follows from its children and is never passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from foundation.core.flavor_resource import FlavorResource, ResourceName
from scheduling.engine.model.kinds import (
    AllocationMode,
    Instant,
    PreemptOthers,
    PreemptWithin,
    Preference,
    StopPolicy,
    Strategy,
    WhenCan,
)


class Charge(NamedTuple):
    """An amount of one resource of one flavor."""

    flavor: str
    resource: ResourceName
    amount: int

    @property
    def key(self) -> FlavorResource:
        """The quota that this amount counts against."""
        return FlavorResource(self.flavor, self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one quota node for one resource of one flavor. None is unlimited.

    `own_nominal` does not include what the node distributed to its children. Saved cycles call it `nominal`.
    """

    flavor: str
    resource: ResourceName
    own_nominal: int | None = field(metadata={"json": "nominal"})
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    @property
    def key(self) -> FlavorResource:
        """The flavor and resource that these limits apply to."""
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


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a role gets from one flavor together, and the flavors tried, in order.

    No resources means all of them: the queue has one group then.
    """

    resources: tuple[ResourceName, ...] = ()
    flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPolicy:
    """The jobs that the jobs of a queue may preempt (Kueue: ClusterQueuePreemption).

    `within_queue`: jobs of the same queue. `reclaim`: jobs of other queues above their nominal, to get the
    own nominal back. `while_borrowing`: the same in order to borrow, from jobs of lower priority not above
    `max_priority` (None: no bound); classical preemption only. `within_while_borrowing`: under fair sharing,
    jobs of the own queue also for a job that borrows, where `reclaim` alone would not allow that; it moves no
    share from one queue to another.
    """

    within_queue: PreemptWithin = PreemptWithin.NEVER
    reclaim: PreemptOthers = PreemptOthers.NEVER
    while_borrowing: PreemptOthers = PreemptOthers.NEVER
    within_while_borrowing: bool = False
    max_priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fungibility:
    """The rules by which the search over a queue's flavors continues after one that fits (Kueue, KEP-582)."""

    when_can_borrow: WhenCan = WhenCan.MAY_STOP_SEARCH
    when_can_preempt: WhenCan = WhenCan.TRY_NEXT_FLAVOR
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue: a leaf of the quota tree with an order and rules.

    `flavors` are tried in this order for all resources together; where resources come from different flavors,
    `resource_groups` says so and `flavors` is empty. `ordering` names an ordering of the engine's
    configuration. With `backfill` the first job that does not fit gets a reservation, and later jobs start
    only if they do not delay it; without, every job that fits starts. With `user_shares` the jobs of users
    who used less lately come first.
    """

    id: str
    quota_node: str
    flavors: tuple[str, ...] = ()
    resource_groups: tuple[ResourceGroup, ...] = ()
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    ordering: str = "fifo"
    stop_policy: StopPolicy = StopPolicy.NONE
    allocation_mode: AllocationMode = AllocationMode.DYNAMIC
    preemption: PreemptionPolicy = field(default_factory=PreemptionPolicy)
    fungibility: Fungibility = field(default_factory=Fungibility)
    backfill: bool = True
    user_shares: bool = False

    @property
    def effective_groups(self) -> tuple[ResourceGroup, ...]:
        """The resource groups, or one group of all resources if none are named."""
        return self.resource_groups or _only_group(self.flavors)


@lru_cache(maxsize=1024)
def _only_group(flavors: tuple[str, ...]) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup((), flavors),)


@dataclass(frozen=True, slots=True)
class ResourceAmount:
    """An amount of one resource, whatever flavor it comes from; may be a decayed, fractional one."""

    resource: ResourceName
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUsage:
    """The recent usage of a user's jobs in one queue, decayed to `at`, in resource units.

    `weight_milli` is the user's weight in thousandths; zero puts the user last.
    """

    queue: str
    user: str
    at: Instant
    consumed: tuple[ResourceAmount, ...] = ()
    weight_milli: int = 1000
