"""Hooks by which the packages above follow changes of tenants."""
