"""Temporary quota that a node lends to another."""
