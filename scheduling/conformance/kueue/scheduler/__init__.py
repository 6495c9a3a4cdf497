"""Kueue's scheduling cycle as an action of the engine: heads judged together, and its second pass."""
