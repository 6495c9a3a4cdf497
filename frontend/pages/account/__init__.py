"""Signing in, the own account and access keys."""
