"""Changes that bring a snapshot up to date without building it anew.

Each change says what is true now. A job or node that is already there is replaced; an allocation
carries its own charges, so taking it away frees node, cards and quota in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import Allocation, Claim, Flavor, Job, Node, Queue, QuotaNode, UserUsage


@dataclass(frozen=True, slots=True)
class JobPut:
    """A job was submitted or changed (state, priority, back-off, …)."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobGone:
    """A job left for good."""

    job_id: str


@dataclass(frozen=True, slots=True)
class AllocationPut:
    """A task began to hold something."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class AllocationGone:
    """A task holds nothing any more."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class NodePut:
    """A node came or changed; its usage is the usage after the change."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node left. What is still booked on it can be taken away later."""

    node_id: str


@dataclass(frozen=True, slots=True)
class FlavorPut:
    """A flavor came or changed."""

    flavor: Flavor


@dataclass(frozen=True, slots=True)
class QueuePut:
    """A queue came or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QuotaPut:
    """A quota node came or changed; its usage is the usage after the change."""

    quota_node: QuotaNode


@dataclass(frozen=True, slots=True)
class ClaimPut:
    """A job was promised a place that others are leaving."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimGone:
    """A promise was kept, or ended."""

    job_id: str


@dataclass(frozen=True, slots=True)
class UsagePut:
    """What a user used lately was counted again."""

    usage: UserUsage


@dataclass(frozen=True, slots=True)
class LossPut:
    """A new measurement of the share of GPU time that preemption lost, in millionths."""

    lost_ppm: int


Change = (
    JobPut
    | JobGone
    | AllocationPut
    | AllocationGone
    | NodePut
    | NodeGone
    | FlavorPut
    | QueuePut
    | QuotaPut
    | ClaimPut
    | ClaimGone
    | UsagePut
    | LossPut
)


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes in the order in which they happened."""

    changes: tuple[Change, ...] = ()
