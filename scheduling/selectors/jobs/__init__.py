"""Reads jobs, their attempts, tasks, tags and templates on behalf of a viewer."""
