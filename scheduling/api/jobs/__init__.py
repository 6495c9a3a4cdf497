"""Endpoints for jobs: list, submit, act, templates, and the stream of their events."""
