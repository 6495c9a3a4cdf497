"""The data model of Kueue's topology-aware scheduling, in addition to the engine's own model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.conformance.kueue.topology_aware.request import TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import SliceLayer
from scheduling.engine.model import Allocation, Extended, Job, Request, TopologyRule


@dataclass(frozen=True, slots=True)
class DomainTasks:
    """The number of tasks in one domain of the finest level. A domain has the values of its node labels,
    coarse to fine, or only the host name if domains are nodes."""

    domain: tuple[str, ...]
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainAllocation(Allocation):
    """The allocation of all tasks of a role in a topology-aware flavor.

    `domains` are those in which they run, and `each` is the footprint of one task. Without domains they hold
    quota, but are not placed yet.
    """

    domains: tuple[DomainTasks, ...] = ()
    each: tuple[Extended, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnlargedJob(Job):
    """A job that takes over the allocations and quota of the job that it `replaces` (workload slices)."""

    replaces: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest(Request):
    """The request of one pod. `footprint` is what it takes in its domain; the charge may include more."""

    footprint: tuple[Extended, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedRule(TopologyRule):
    """A topology rule whose `layers` divide slices further, from coarse to fine."""

    layers: tuple[SliceLayer, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """The node labels that must exist for the rule."""
        named = (self.level, self.slice_level, *(layer.level for layer in self.layers))
        return tuple(label for label in named if label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyState:
    """The state of topology-aware scheduling for a cycle of a case.

    Flavors count each other's tasks on shared nodes unless they are `apart`. The nodes of the flavors in
    `on_order`, by queue, are provisioned once a job holds quota. `unplaced` jobs hold quota and are placed
    now. `lost_nodes`, by job, are failed nodes with its tasks; the first one is replaced.
    """

    options: TopologyOptions = field(default_factory=TopologyOptions)
    apart: bool = False
    on_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unplaced: frozenset[str] = frozenset()
    lost_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
