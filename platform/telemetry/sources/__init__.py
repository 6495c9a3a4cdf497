"""Readers of the exporters in clusters, and of their Prometheus servers."""
