"""Changing policies, priority classes and their grants."""
