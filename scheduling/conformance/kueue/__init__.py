"""Reads objects of Kueue, and checks its case tables with the engine."""
