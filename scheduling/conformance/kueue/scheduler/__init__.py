"""Kueue's scheduling cycle as an action of the engine: heads that are evaluated together, and a second
pass."""
