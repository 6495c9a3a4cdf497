"""Resizing the memory of running tasks."""
