from clusters.models.cluster import (
    BackendKind,
    Cell,
    Cluster,
    ClusterHealth,
    Flavor,
    GpuMode,
    PlacementPolicy,
)
from clusters.models.node import Device, Node

__all__ = [
    "BackendKind",
    "Cell",
    "Cluster",
    "ClusterHealth",
    "Device",
    "Flavor",
    "GpuMode",
    "Node",
    "PlacementPolicy",
]
