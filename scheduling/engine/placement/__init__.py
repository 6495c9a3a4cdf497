"""This package chooses a node and cards for one task at a time, by filters (vetoes) and weighted scores."""
