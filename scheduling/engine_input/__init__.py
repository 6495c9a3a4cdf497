"""Rows of the database as values that the engine takes."""
