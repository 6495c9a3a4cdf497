"""A real cluster through its API: the only part of the platform that imports the Kubernetes client."""

from clusters.backends.kubernetes.backend import KubernetesBackend

__all__ = ["KubernetesBackend"]
