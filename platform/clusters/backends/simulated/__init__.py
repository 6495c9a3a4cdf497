"""A cluster that exists only as rows: for the embedded installation, for tests and for benchmarks."""

from clusters.backends.simulated.backend import SimulatedBackend
from clusters.backends.simulated.seed import DEMO, NodeGroup, build_cluster, large_cluster

__all__ = ["DEMO", "NodeGroup", "SimulatedBackend", "build_cluster", "large_cluster"]
