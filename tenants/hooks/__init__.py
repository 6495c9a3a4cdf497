"""Hooks for the packages above, which follow changes of tenants."""
