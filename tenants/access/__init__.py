"""Roles, permissions and row-level security: the checks of what a user may do on which tenant."""
