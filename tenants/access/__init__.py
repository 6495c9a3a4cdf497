"""Roles, permissions and row-level security: who may do what where."""
