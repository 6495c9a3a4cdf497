"""Predicates: which nodes may take a task."""
