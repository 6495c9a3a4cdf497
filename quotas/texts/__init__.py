"""Texts about quota that people read."""
