"""Hooks through which the packages above answer to scheduling."""
