"""Health checks, counters and the metrics page."""
