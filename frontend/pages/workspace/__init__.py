"""Pages of one workspace."""
