"""Worlds, servers and reports that the benchmarks share."""
