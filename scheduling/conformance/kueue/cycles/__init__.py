"""Kueue's tables of whole cycles, and the scheduler and queue manager that run them."""
