"""Readers of the exporters that clusters already have, and of their Prometheus servers."""
