"""Signing in, the user's own account and access keys."""
