"""Estimates of starts that a user requests: requested, computed by a worker, and read by that user alone."""
