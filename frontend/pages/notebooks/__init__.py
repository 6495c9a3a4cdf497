"""The notebooks and services of a workspace."""
