"""A Kubernetes cluster in which Kueue decides who is admitted; we place the pods and follow."""

from clusters.backends.kueue.backend import KueueBackend

__all__ = ["KueueBackend"]
