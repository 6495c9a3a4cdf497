"""Parses a job file, section by section, by the declaration of its fields."""
