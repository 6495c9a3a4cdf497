"""Submitting a job: the form, its YAML, and a preview."""
