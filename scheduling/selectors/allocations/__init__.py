"""Reads the nodes, cards and slices that are allocated to jobs, since when, and whether they are used."""
