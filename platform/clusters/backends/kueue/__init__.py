"""A Kubernetes cluster in which Kueue decides on admission; the platform places the pods."""

from clusters.backends.kueue.backend import KueueBackend

__all__ = ["KueueBackend"]
