"""Pages about quota: what everybody has, changing it, and what was changed."""
