"""Hooks by which packages above report the effect of a quota change and the evidence for a request."""
