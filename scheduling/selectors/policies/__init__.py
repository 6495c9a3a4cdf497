"""Reads workspace policies, priority classes and replays of policies."""
