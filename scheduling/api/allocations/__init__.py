"""Endpoints for the resources of running jobs: idle time, GPU memory, drains of nodes."""
