"""Topology-aware placement of gangs: chooses racks, blocks or zones for a role's tasks, and how many run in
each.

Callers build a tree from nodes and a stock from their capacity, and use a placer. The rules are those of
Kueue's topology-aware scheduling (KEP-2724): one domain of a required or preferred level, slices that share a
finer domain, leaders next to their workers, replacement of failed nodes.
"""

from scheduling.conformance.kueue.topology_aware.across import FlavorTopology, place_across
from scheduling.conformance.kueue.topology_aware.model import (
    DomainAllocation,
    DomainTasks,
    PodRequest,
    SlicedRule,
    TopologyState,
)
from scheduling.conformance.kueue.topology_aware.place import DomainGangPlacer
from scheduling.conformance.kueue.topology_aware.replace import Replacement, replace_leaf
from scheduling.conformance.kueue.topology_aware.request import NodePreference, RoleRequest, TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import (
    Exclusions,
    Failure,
    LayerRoom,
    Misfit,
    Placement,
    RoleOutcome,
    Share,
    SliceLayer,
    Usage,
    usage_of,
)
from scheduling.conformance.kueue.topology_aware.stock import Stock
from scheduling.conformance.kueue.topology_aware.tree import (
    NODE_LABEL,
    TopologyNode,
    TopologyTree,
    build_tree,
)

__all__ = [
    "NODE_LABEL",
    "DomainAllocation",
    "DomainGangPlacer",
    "DomainTasks",
    "Exclusions",
    "Failure",
    "FlavorTopology",
    "LayerRoom",
    "Misfit",
    "NodePreference",
    "Placement",
    "PodRequest",
    "Replacement",
    "RoleOutcome",
    "RoleRequest",
    "Share",
    "SliceLayer",
    "SlicedRule",
    "Stock",
    "TopologyNode",
    "TopologyOptions",
    "TopologyState",
    "TopologyTree",
    "Usage",
    "build_tree",
    "place_across",
    "replace_leaf",
    "usage_of",
]
