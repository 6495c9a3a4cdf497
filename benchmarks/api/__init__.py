"""`allotment bench api`: how fast the server answers with a million jobs behind it."""

from benchmarks.api.measure import main, run

__all__ = ["main", "run"]
