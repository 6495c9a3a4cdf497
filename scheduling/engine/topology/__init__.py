"""Topology-aware gangs: which racks, blocks or zones a role's tasks stand in, and how many in each.

Build a tree from nodes, a stock from their capacity, and ask a placer. The rules are those of Kueue's
topology-aware scheduling (KEP-2724): one domain of a required or preferred level, slices that share a
finer domain, leaders next to their workers, replacement of failed nodes.
"""

from scheduling.engine.model import SliceLayer
from scheduling.engine.topology.across import FlavorGround, place_across
from scheduling.engine.topology.place import GangPlacer
from scheduling.engine.topology.replace import Replacement, replace_leaf
from scheduling.engine.topology.request import Preference, RoleRequest, TopologyOptions
from scheduling.engine.topology.result import (
    Exclusions,
    Failure,
    LayerRoom,
    Misfit,
    Placement,
    RoleOutcome,
    Share,
    Usage,
    usage_of,
)
from scheduling.engine.topology.stock import Stock
from scheduling.engine.topology.tree import NODE_LABEL, TopologyNode, TopologyTree, build_tree

__all__ = [
    "NODE_LABEL",
    "Exclusions",
    "Failure",
    "FlavorGround",
    "GangPlacer",
    "LayerRoom",
    "Misfit",
    "Placement",
    "Preference",
    "Replacement",
    "RoleOutcome",
    "RoleRequest",
    "Share",
    "SliceLayer",
    "Stock",
    "TopologyNode",
    "TopologyOptions",
    "TopologyTree",
    "Usage",
    "build_tree",
    "place_across",
    "replace_leaf",
    "usage_of",
]
