"""Hooks by which packages above tell what a change of quota does, and the evidence for a request."""
