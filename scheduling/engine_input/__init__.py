"""Converts rows of the database to the input of the engine."""
