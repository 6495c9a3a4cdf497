"""Candidates for eviction: their index, what they hold, what their eviction costs."""
