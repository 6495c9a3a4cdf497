"""Submits and changes jobs."""
