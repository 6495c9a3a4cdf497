"""Converts objects of Kubernetes and Kueue to parts of a snapshot of the engine."""
