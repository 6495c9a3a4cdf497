"""Estimates of starts after a change of quota or policy."""
