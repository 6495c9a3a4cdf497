from clusters.models.cluster import (
    ADMITS_ITSELF,
    BackendKind,
    Cell,
    Cluster,
    ClusterHealth,
    Flavor,
    GpuMode,
    PlacementPolicy,
    Sharing,
)
from clusters.models.node import Device, ForeignOrigin, ForeignPod, Node, NodeEvent
from clusters.models.node_cordon import NodeCordon
from clusters.models.simulated import (
    SimulatedCluster,
    SimulatedDevice,
    SimulatedNode,
    SimulatedPhase,
    SimulatedPod,
)

__all__ = [
    "ADMITS_ITSELF",
    "BackendKind",
    "Cell",
    "Cluster",
    "ClusterHealth",
    "Device",
    "Flavor",
    "ForeignOrigin",
    "ForeignPod",
    "GpuMode",
    "Node",
    "NodeCordon",
    "NodeEvent",
    "PlacementPolicy",
    "Sharing",
    "SimulatedCluster",
    "SimulatedDevice",
    "SimulatedNode",
    "SimulatedPhase",
    "SimulatedPod",
]
