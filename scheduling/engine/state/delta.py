"""Changes update a snapshot without building it again.

Each change carries the new value. A job or node of the same id is replaced; an allocation carries its
charges, so that its removal releases node, cards and quota in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import (
    Allocation,
    Claim,
    Flavor,
    Job,
    Node,
    Queue,
    QuotaNode,
    TaskWorkload,
    UserUsage,
)


@dataclass(frozen=True, slots=True)
class JobPut:
    """A job was submitted or changed (state, priority, back-off, …)."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobRemoved:
    """A job was removed: it ended and is no longer part of the cell."""

    job_id: str


@dataclass(frozen=True, slots=True)
class AllocationPut:
    """A task was allocated."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class AllocationRemoved:
    """The allocation of a task was released."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class NodePut:
    """A node was added or changed; its usage is the usage after the change."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node was removed. Allocations that are still on it can be removed later."""

    node_id: str


@dataclass(frozen=True, slots=True)
class FlavorPut:
    """A flavor was added or changed."""

    flavor: Flavor


@dataclass(frozen=True, slots=True)
class QueuePut:
    """A queue was added or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QuotaPut:
    """A quota node was added or changed; its usage is the usage after the change."""

    quota_node: QuotaNode


@dataclass(frozen=True, slots=True)
class ClaimPut:
    """A job got a claim to the placements of terminating tasks."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimRemoved:
    """A claim was fulfilled, or it expired."""

    job_id: str


@dataclass(frozen=True, slots=True)
class UsagePut:
    """The recent usage of a user was measured again."""

    usage: UserUsage


@dataclass(frozen=True, slots=True)
class LossPut:
    """The share of GPU time that preemption lost was measured again, in millionths."""

    lost_ppm: int


@dataclass(frozen=True, slots=True)
class WorkloadPut:
    """The workload mix that placement policies learn from was counted again."""

    workload: TaskWorkload


Change = (
    JobPut
    | JobRemoved
    | AllocationPut
    | AllocationRemoved
    | NodePut
    | NodeRemoved
    | FlavorPut
    | QueuePut
    | QuotaPut
    | ClaimPut
    | ClaimRemoved
    | UsagePut
    | LossPut
    | WorkloadPut
)


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes in the order in which they happened."""

    changes: tuple[Change, ...] = ()
