"""Preemption: eligible victims, the search for victims, and the cost of an eviction."""
