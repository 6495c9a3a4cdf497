"""Endpoints for workspace policies, priority classes and replays of policies."""
