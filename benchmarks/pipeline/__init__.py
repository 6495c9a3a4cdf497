"""`allotment bench pipeline`: the time from submitting jobs over the API until they run, or have ended."""

from benchmarks.pipeline.command import main, run

__all__ = ["main", "run"]
