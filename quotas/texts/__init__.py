"""Texts about quota for users."""
