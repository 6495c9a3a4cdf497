"""Reads why jobs are pending, since when, and when they are expected to start."""
