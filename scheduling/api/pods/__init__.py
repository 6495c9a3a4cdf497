"""Endpoints for the output and the events of a job's pods."""
