"""Checks Kueue's tables of whole cycles, with a scheduler and a queue manager that run them."""
