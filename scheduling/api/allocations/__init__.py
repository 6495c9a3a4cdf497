"""Endpoints for what jobs hold: idle time, memory, nodes that are drained."""
