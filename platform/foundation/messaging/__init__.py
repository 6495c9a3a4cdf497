"""Hints to the workers, leases, and the shared cache."""
