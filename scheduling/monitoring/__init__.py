"""Counters and figures of scheduling for the metrics page."""
