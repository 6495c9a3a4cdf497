"""`allotment bench kube`: how fast the platform brings pods onto the nodes of a real API server."""

from benchmarks.kube.command import main

__all__ = ["main"]
