"""Submitting a job: the form, its YAML, and what would happen."""
