"""Reading pools: their flavors, size and free cards."""
