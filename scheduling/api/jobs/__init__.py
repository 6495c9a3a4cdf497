"""Endpoints for jobs: lists, submissions, actions, templates, and the stream of events."""
