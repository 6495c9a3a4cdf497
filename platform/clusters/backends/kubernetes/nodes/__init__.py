"""Nodes and their cards: facts, what pods hold of them, slices, cordons."""
