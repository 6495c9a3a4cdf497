"""`allotment bench kube`: how fast the platform binds pods to the nodes of a real API server."""

from benchmarks.kube.command import main

__all__ = ["main"]
