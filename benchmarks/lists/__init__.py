"""`allotment bench lists`: response times of every list in a large installation."""

from benchmarks.lists.measure import main

__all__ = ["main"]
