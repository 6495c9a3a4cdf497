"""Trials of evictions: the state of a search, removals that are undone, and what they free."""
