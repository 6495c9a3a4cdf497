"""The operators' pages: what the clusters hold, use, and could still take."""
