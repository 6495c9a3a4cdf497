"""`allotment bench lists`: how fast every list answers in a large installation."""

from benchmarks.lists.measure import main

__all__ = ["main"]
