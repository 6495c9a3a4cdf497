"""The data of Kueue's topology-aware scheduling about jobs beyond the engine's own model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.conformance.kueue.topology_aware.request import TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import SliceLayer
from scheduling.engine.model import Allocation, Extended, Job, Request, TopologyRule


@dataclass(frozen=True, slots=True)
class DomainTasks:
    """The number of tasks in one domain of the finest level: the values of its node labels, coarse to fine,
    or the host name alone where domains are nodes."""

    domain: tuple[str, ...]
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainAllocation(Allocation):
    """The allocation of all tasks of a role in a topology-aware flavor.

    `domains` is where they run and `each` what one of them takes there. Without domains they hold quota and
    have no places yet.
    """

    domains: tuple[DomainTasks, ...] = ()
    each: tuple[Extended, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnlargedJob(Job):
    """A job that takes over the allocations and quota of the job that it `replaces` (workload slices)."""

    replaces: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest(Request):
    """The request of one pod. `footprint` is what it takes of its domain, which is not all that is
    charged.
    """

    footprint: tuple[Extended, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedRule(TopologyRule):
    """A topology rule whose `layers` divide each slice further, from coarse to fine."""

    layers: tuple[SliceLayer, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """The node labels that must be there for the rule to make sense."""
        named = (self.level, self.slice_level, *(layer.level for layer in self.layers))
        return tuple(label for label in named if label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyState:
    """The topologies that the cycles of one case know.

    Flavors see each other's tasks on shared nodes unless they are `apart`. The machines of the flavors in
    `on_order`, by queue, are ordered for a job once it holds quota. `unplaced` jobs hold quota and get their
    places now. `lost_nodes`, by job, are nodes that failed under its tasks; the first is replaced.
    """

    options: TopologyOptions = field(default_factory=TopologyOptions)
    apart: bool = False
    on_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unplaced: frozenset[str] = frozenset()
    lost_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
