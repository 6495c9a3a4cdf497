"""This package filters nodes: its predicates decide which nodes may take a task."""
