"""`allotment bench api`: response times of the API with a million stored jobs."""

from benchmarks.api.measure import main, run

__all__ = ["main", "run"]
