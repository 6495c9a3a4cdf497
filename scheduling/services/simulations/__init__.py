"""Requested simulations: one at a time, with progress and a result."""
