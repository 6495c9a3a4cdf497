"""Reads the events of jobs, and the names of the subjects of audit records."""
